"""The access log: a line of JSON per request, on standard error."""

import json
import sys
import time
from contextlib import suppress
from typing import Any

from starlette.requests import Request


class AccessLog:
    """Writes who asked for what, and what became of it; what requests say, documents and features, only if asked for.

    Parameters
    ----------
    with_bodies : bool
        Write what requests say, too.
    """

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
