"""Admission of requests: tokens, the site that a browser sends them from, and their rate."""

import ipaddress
import json
import logging
import math
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import msgspec

from perceptrank.io.atomic import write_atomically
from perceptrank.io.errors import FileFormatError
from perceptrank.serve.errors import (
    ForbiddenError,
    InvalidRequestError,
    RateLimitedError,
    ServiceError,
    UnauthorizedError,
)


@lru_cache
def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address.

    Examples
    --------
    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "localhost.example")]
    [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


MOST_DAYS = 36_500  # dates have years of four digits
SCOPES = ("rank", "feedback", "watch", "admin")
OWN = "(own)"  # stands for the name of a token of the service's own processes
_FILE = "tokens.json"
_ADVICE = "ask whoever runs the service for one: perceptrank serve --data FOLDER --add-token NAME=SCOPES prints it"
logger = logging.getLogger("perceptrank.serve")


@dataclass(frozen=True)
class Token:
    """A token as it is kept: its name, what it may do, the hash of its text, and when it expires (Unix time)."""

    name: str
    scopes: list[str]
    sha256: str
    expires: float | None = None

    @property
    def has_expired(self) -> bool:
        """True if it is refused by now."""
        return self.expires is not None and time.time() >= self.expires


class Access:
    """The tokens of a folder, read again whenever their file changes.

    Without the file everyone may do everything, which is for loopback alone. Once there was one, this is over: who
    revokes the last token, or removes the file, opens nothing.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._seen = self._look()
        self._tokens = _read(self._path)
        self._is_open = self._seen is None
        self.own_token = ""  # of the processes of this service, which may do everything
        self.last_used: dict[str, float] = {}  # Unix times since the start, by name

    @property
    def tokens(self) -> list[Token]:
        """The tokens that the file has now."""
        if (seen := self._look()) != self._seen:
            self._seen, self._is_open, self._tokens = seen, False, []
            try:
                self._tokens = _read(self._path)
            except (FileFormatError, OSError) as error:
                logger.error("no token is known any more: %s", error)
        return self._tokens

    @property
    def is_open(self) -> bool:
        """True if everyone may do everything."""
        return not self.tokens and self._is_open

    def add(self, name: str, scopes: list[str], days: float | None = None) -> str:
        """Make a token, which expires after some days if so wanted; return its text, of which only the hash is kept."""
        unknown = [scope for scope in scopes if scope not in SCOPES]
        if unknown or not scopes:
            raise InvalidRequestError(
                f"scopes must be some of {', '.join(SCOPES)}, got {', '.join(scopes) or 'none'}", "name some of them"
            )
        if not name or any(token.name == name for token in self.tokens):
            raise InvalidRequestError(
                f"tokens must have names of their own, got {name!r}",
                f"choose another, or revoke that one first with --revoke-token {name}" if name else "say NAME=SCOPES",
            )
        if days is not None and not 0 < days <= MOST_DAYS:
            raise InvalidRequestError(
                f"a token must be valid for a number of days > 0, at most {MOST_DAYS:,}, got {days:g}",
                "say 30, or nothing for one that does not expire",
            )
        text = secrets.token_urlsafe(32)
        # Texts of tokens are random and long, so that a plain hash cannot be guessed.
        expires = None if days is None else time.time() + 86_400 * days
        self._write([*self.tokens, Token(name, scopes, sha256(text.encode()).hexdigest(), expires)])
        return text

    def revoke(self, name: str) -> None:
        """Forget a token; services that run refuse it from now on."""
        kept = [token for token in self.tokens if token.name != name]
        if len(kept) == len(self.tokens):
            names = ", ".join(token.name for token in kept) or "none"
            raise InvalidRequestError(f"there is no token {name!r}", f"there are {names}")
        self._write(kept)

    def _write(self, tokens: list[Token]) -> None:
        self._path.touch(mode=0o600)
        write_atomically(self._path, json.dumps({"tokens": [asdict(token) for token in tokens]}, indent=1) + "\n")

    def _look(self) -> tuple[int, int, int] | None:
        """Return what changes with the file, None if there is none."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def check(self, header: str | None, scope: str, *, is_open: bool | None = None) -> str:
        """Return the name of a header's token, empty if none is needed; raise if it is unknown or lacks a scope.

        `is_open` saves looking again whether everyone may do everything.
        """
        kind, _, text = (header or "").partition(" ")
        if self.own_token and compare_digest(text.encode("utf-8", "replace"), self.own_token.encode()):
            return OWN
        if self.is_open if is_open is None else is_open:
            return ""
        if kind.lower() != "bearer" or not text:
            raise UnauthorizedError(
                "this service needs a token", f"send the header Authorization: Bearer TOKEN; {_ADVICE}"
            )
        digest = sha256(text.strip().encode("utf-8", "replace")).hexdigest()
        # All of them are compared, so that the time tells nothing.
        matches = [token for token in self._tokens if compare_digest(token.sha256, digest)]
        if not matches:
            raise UnauthorizedError("the token is not known, or was revoked", _ADVICE)
        token = matches[-1]
        if token.has_expired:
            raise UnauthorizedError(f"the token {token.name!r} has expired", _ADVICE)
        if scope not in token.scopes and (scope != "watch" or "admin" not in token.scopes):
            raise ForbiddenError(f"the token {token.name!r} lacks the scope {scope!r}", "use one that has it")
        self.last_used[token.name] = time.time()
        return token.name

    def allows(self, header: str | None, scope: str) -> bool:
        """Tell whether `check` finds nothing wrong."""
        try:
            self.check(header, scope)
        except ServiceError:
            return False
        return True


def _read(path: Path) -> list[Token]:
    if not path.exists():
        return []
    try:
        return msgspec.convert(json.loads(path.read_bytes())["tokens"], list[Token])
    except (ValueError, TypeError, KeyError, msgspec.ValidationError) as error:
        raise FileFormatError(path, f" does not hold tokens: {error}") from None


class RateLimit:
    """Buckets by name, each of `burst` permits (by default those of a second), which come back at `rate` per second."""

    def __init__(
        self, rate: float = math.inf, burst: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate, self.burst = rate, max(1.0, rate) if burst is None else burst
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # permits, and since when

    def take(self, name: str) -> None:
        """Take a permit; raise, and say how long to wait, if there is none."""
        if self.rate == math.inf:
            return
        now = self._clock()
        permits, since = self._buckets.get(name, (self.burst, now))
        permits = min(self.burst, permits + (now - since) * self.rate)
        if permits < 1.0:
            self._buckets[name] = permits, now
            seconds = (1.0 - permits) / self.rate
            rule, advice = f"more than {self.rate:g} requests per second", f"send it again in {seconds:.3g} seconds"
            error = RateLimitedError(rule, advice)
            error.retry_after = seconds
            raise error
        self._buckets[name] = permits - 1.0, now


@dataclass(frozen=True)
class Gate:
    """Lets requests in, or raises.

    Without tokens the service is for this machine, but a browser on it also carries the requests of other sites' pages.
    Those are told by their Origin, and those of a name that was made to point here by their Host.
    """

    access: Access
    rate: RateLimit

    def admit(self, headers: Mapping[str, str], scope: str) -> str:
        """Return the name of the token, empty if there are none; raise if the request is not let in."""
        if is_open := self.access.is_open:
            check_site(headers)
        name = self.access.check(headers.get("authorization"), scope, is_open=is_open)
        if name != OWN:
            self.rate.take(name)
        return name


def check_site(headers: Mapping[str, str]) -> None:
    """Raise if a request may come from a page of another site."""
    host, origin, site = headers.get("host"), headers.get("origin"), headers.get("sec-fetch-site")
    if host is not None and not is_loopback(_split(f"//{host}").hostname or ""):
        raise ForbiddenError(
            f"without tokens, this service is known by names of this machine only, got {host[:100]!r}",
            "ask for localhost, or make a token with perceptrank serve --add-token",
        )
    # Images and the like are asked for without an origin, but browsers say whether the page is of another site.
    if (origin is not None and _split(origin).netloc != host) or site in ("cross-site", "same-site"):
        raise ForbiddenError(
            f"pages of other sites may not use this service, got the origin {(origin or site or '')[:100]!r}",
            "send requests from a program, or from the service's own page",
        )


def _split(url: str) -> SplitResult:
    """Return the parts of an address; all are empty if it is none."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")
