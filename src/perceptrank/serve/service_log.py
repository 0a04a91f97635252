"""The service's own messages, on standard error: as text, or as lines of JSON."""

import json
import logging
import sys
from contextlib import suppress

NAME = "perceptrank.serve"
FORMATS = ("text", "json")


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
