"""Lines on standard error: the service's own messages, and one per request."""

import json
import logging
import sys
import time
from contextlib import suppress
from typing import Any

from starlette.requests import Request

NAME = "perceptrank.serve"


class _Handler(logging.Handler):
    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def emit(self, record: logging.LogRecord) -> None:
        """Write a message; if nobody can read it, go on."""
        with suppress(OSError, ValueError):
            print(self.line(record), file=sys.stderr, flush=True)

    def line(self, record: logging.LogRecord) -> str:
        """Return the line, or in text with a traceback the lines, of a message."""
        trace = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
        message = record.getMessage()
        if not self._as_json:
            level = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
            return f"{level}{message}" + (f"\n{trace}" if trace else "")
        line = {"time": record.created, "level": record.levelname.lower(), "logger": record.name, "message": message}
        line |= getattr(record, "fields", {})
        return json.dumps(line | ({"traceback": trace} if trace else {}), default=str)


def set_up(form: str) -> logging.Logger:
    """Write the messages of the service, and those of its server from warnings on, in a format; return the logger."""
    for name, level in ((NAME, logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers = [_Handler(as_json=form == "json")]
        logger.propagate = False
        logger.setLevel(level)
    return logging.getLogger(NAME)


class AccessLog:
    """Writes a line per request; with bodies, that is documents and features, only if asked to."""

    def __init__(self, *, with_bodies: bool = False) -> None:
        self._with_bodies = with_bodies

    def keep(self, request: Request, body: bytes) -> None:
        """Keep the body of a request until its line is written."""
        if self._with_bodies:
            request.state.body = body

    def write(self, request: Request, status: int, seconds: float, who: str) -> None:
        """Write the line of a request."""
        line: dict[str, Any] = {
            "time": time.time(),
            "client": request.client.host if request.client else None,
            "token": who or None,
            "method": request.method,
            "path": request.scope["path"],  # as the server has read it: the URL is also made of the header Host
            "status": status,
            "seconds": round(seconds, 6),
        }
        body = getattr(request.state, "body", None)
        if body is not None:
            line["body"] = _plain(body)
        with suppress(OSError, ValueError):  # if nobody can read it, the request is answered all the same
            print(json.dumps(line), file=sys.stderr, flush=True)


def _plain(body: bytes) -> Any:
    """Return the JSON of a body; what is none, as text."""
    try:
        return json.loads(body, parse_constant=str)  # NaN is not JSON
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace")
