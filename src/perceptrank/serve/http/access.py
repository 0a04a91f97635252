"""Admission of requests: tokens, the site that a browser sends them from, and their rate."""

import ipaddress
import json
import math
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from perceptrank.io.atomic import write_atomically
from perceptrank.io.errors import FileFormatError
from perceptrank.serve.errors import ForbiddenError, InvalidRequestError, RateLimitedError, UnauthorizedError


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


SCOPES = ("rank", "feedback", "watch", "admin")
_FILE = "tokens.json"


@dataclass(frozen=True)
class Token:
    """A token as it is kept: what it is called, what it may do, and the hash of its text."""

    name: str
    scopes: list[str]
    sha256: str


class Access:
    """The tokens of a folder; without any, everyone may do everything, which is for loopback alone."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self.tokens = _read(self._path)

    def add(self, name: str, scopes: list[str]) -> str:
        """Make a token and keep its hash; return its text, which is nowhere else."""
        unknown = [scope for scope in scopes if scope not in SCOPES]
        if unknown or not scopes:
            raise InvalidRequestError(
                f"scopes must be some of {', '.join(SCOPES)}, got {', '.join(scopes) or 'none'}", "name some of them"
            )
        if not name or any(token.name == name for token in self.tokens):
            raise InvalidRequestError(f"tokens must have names of their own, got {name!r}", "choose another")
        text = secrets.token_urlsafe(32)
        # Texts of tokens are random and long, so that a plain hash cannot be guessed.
        self.tokens.append(Token(name, scopes, sha256(text.encode()).hexdigest()))
        self._path.touch(mode=0o600)
        write_atomically(self._path, json.dumps({"tokens": [asdict(token) for token in self.tokens]}, indent=1) + "\n")
        return text

    def check(self, header: str | None, scope: str) -> str:
        """Return the name of a header's token, empty if there are none; raise if it is unknown or lacks a scope."""
        if not self.tokens:
            return ""
        kind, _, text = (header or "").partition(" ")
        if kind.lower() != "bearer" or not text:
            raise UnauthorizedError("this service needs a token", "send the header Authorization: Bearer TOKEN")
        digest = sha256(text.strip().encode("utf-8", "replace")).hexdigest()
        # All of them are compared, so that the time tells nothing.
        matches = [token for token in self.tokens if compare_digest(token.sha256, digest)]
        if not matches:
            raise UnauthorizedError("the token is not known", "perceptrank serve --add-token makes one")
        token = matches[-1]
        if scope not in token.scopes and (scope != "watch" or "admin" not in token.scopes):
            raise ForbiddenError(f"the token {token.name!r} lacks the scope {scope!r}", "use one that has it")
        return token.name


def _read(path: Path) -> list[Token]:
    if not path.exists():
        return []
    try:
        return [Token(**token) for token in json.loads(path.read_bytes())["tokens"]]
    except (ValueError, TypeError, KeyError) as error:
        raise FileFormatError(path, f" does not hold tokens: {error}") from None


class RateLimit:
    """Buckets by name, each of `burst` permits, which come back at `rate` per second; a request takes one.

    By default a bucket has the permits of a second, at least 1.
    """

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
            raise RateLimitedError.after((1.0 - permits) / self.rate, self.rate)
        self._buckets[name] = permits - 1.0, now


@dataclass(frozen=True)
class Gate:
    """Lets requests in, or raises.

    Without tokens the service is for this machine, but a browser on it also carries the requests of other sites' pages.
    Those are told by their Origin, and those of a name that was made to point here by their Host. With tokens neither
    matters, as such a page has none.
    """

    access: Access
    rate: RateLimit

    def admit(self, headers: Mapping[str, str], scope: str) -> str:
        """Return the name of the token, empty if there are none; raise if the request is not let in."""
        if not self.access.tokens:
            check_site(headers)
        name = self.access.check(headers.get("authorization"), scope)
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
