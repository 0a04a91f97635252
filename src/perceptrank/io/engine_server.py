"""Engines that answer over HTTP."""

import base64
import json
import os
import re
import ssl
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

AUTHORIZATION = "PERCEPTRANK_AUTHORIZATION"
JSON = "application/json"
_LONGEST = 300  # characters of an engine's complaint that are shown
_OVERLOADED = (429, 502, 503, 504)  # or starting, or what stands in between cannot reach it


class EngineError(OSError):
    """An engine that cannot be reached, or its complaint.

    `status` is that of the answer, if there was one; `may_pass` tells whether the same request may succeed later.
    """

    def __init__(self, message: str, status: int | None = None, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.status, self.may_pass = status, may_pass


class _NoRedirect(HTTPRedirectHandler):
    """Follow no redirection, which would carry credentials to wherever it points."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Removal(NamedTuple):
    """A request that removes what another one has made."""

    method: str
    path: str
    body: Any = None


class EngineServer:
    """A server at an address, with credentials that no message shows.

    `engine` is its name, for messages. The address may hold credentials, as in https://user:password@host:9200; else
    the environment variable PERCEPTRANK_AUTHORIZATION is the value of the header Authorization, if it is set.
    `timeout` is how many seconds to wait for an answer.
    """

    def __init__(self, engine: str, url: str, timeout: float) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise _bad_address(engine) from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise _bad_address(engine)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self.engine, self.timeout = engine, timeout
        self.address = f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"
        self._headers = {"Accept": JSON, **_credentials(parts.username, parts.password)}
        self._opener = build_opener(_NoRedirect)

    def ask(self, method: str, path: str, body: Any = None, *, kind: str = JSON) -> Any:
        """Send a request, with a body of bytes or else as JSON; return the answer's JSON, or raise `EngineError`."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body, allow_nan=False).encode()
        headers = self._headers if data is None else {**self._headers, "Content-Type": kind}
        request = Request(self.address + path, data, headers, method=method)
        where = f"{self.engine} at {self.address}"
        try:
            with self._opener.open(request, timeout=self.timeout) as reply:
                answer = reply.read()
        except HTTPError as error:
            with error:
                status, reason = error.code, _reason(error)
            if status == 401:
                problem = (
                    f"{where} wants other credentials: put them into the address, https://USER:PASSWORD@HOST, or the "
                    f"header Authorization into the environment variable {AUTHORIZATION}"
                )
            elif status == 403:
                problem = f"{where} does not permit {method} {path} with these credentials: {reason}"
            else:
                problem = f"{where} answered {method} {path} with status {status}: {reason}"
            raise EngineError(problem, status, may_pass=status in _OVERLOADED) from None
        except (OSError, HTTPException) as error:
            cause: Any = getattr(error, "reason", error)
            is_untrusted = isinstance(cause, ssl.SSLCertVerificationError)
            if isinstance(cause, TimeoutError):
                problem = f"has not answered within {self.timeout:g} s: set the option timeout"
            elif is_untrusted:
                ways = "set SSL_CERT_FILE to the file of its authority"
                problem = f"has a certificate that is not trusted ({cause.verify_message}): {ways}"
            else:
                problem = f"cannot be reached ({cause}): is it running, and the address right?"
            raise EngineError(f"{where} {problem}", may_pass=not is_untrusted) from None
        try:
            return json.loads(answer)
        except ValueError:
            raise EngineError(f"{self.address} does not answer in JSON: it is not {self.engine}") from None

    @contextmanager
    def leaving_nothing(self) -> Iterator[list[Removal]]:
        """Give a list for removals, which are carried out at the end, last first; warn of what cannot be removed."""
        removals: list[Removal] = []
        try:
            yield removals
        finally:
            for method, path, body in reversed(removals):
                try:
                    self.ask(method, path, body)
                except EngineError as error:
                    if error.status != 404:
                        warnings.warn(f"{method} {path} failed, remove it by hand: {error}", stacklevel=2)

    def make(self, removals: list[Removal], removal: Removal, method: str, path: str, body: Any) -> None:
        """Make something that a removal removes; it is noted first, since an answer may be lost."""
        removals.append(removal)
        try:
            self.ask(method, path, body)
        except EngineError as error:
            if error.status is not None:
                removals.remove(removal)  # the engine said that it has made nothing
            raise


def _bad_address(engine: str) -> ValueError:
    # the address is not shown, as it may hold a password
    return ValueError(f"url of {engine} must be like http://host:port or https://user:password@host:port")


def _credentials(user: str | None, password: str | None) -> dict[str, str]:
    if user is not None:
        pair = f"{unquote(user)}:{unquote(password or '')}".encode()
        return {"Authorization": "Basic " + base64.b64encode(pair).decode()}
    header = os.environ.get(AUTHORIZATION, "").strip()
    return {"Authorization": header} if header else {}


def _reason(error: HTTPError) -> str:
    """Return what an engine complains of, as it is in the answers of Elasticsearch, OpenSearch and Solr."""
    try:
        text = error.read().decode("utf-8", "replace")
    except (OSError, HTTPException):
        return str(error.reason)
    try:
        reason = json.loads(text)["error"]
        if isinstance(reason, dict):
            causes = [cause.get("reason") for cause in reason.get("root_cause", []) if isinstance(cause, dict)]
            reason = reason.get("msg") or "; ".join(filter(None, causes)) or reason.get("reason")
        text = str(reason or error.reason)
    except (ValueError, KeyError, TypeError):
        text = str(error.reason)  # a page, of something in between
    return re.sub(r"\s+", " ", text)[:_LONGEST]
