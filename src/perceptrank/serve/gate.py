"""Admission of requests: by the token, the site that a browser sends them from, and the rate."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from perceptrank.serve.access import Access
from perceptrank.serve.addresses import is_loopback
from perceptrank.serve.errors import ForbiddenError
from perceptrank.serve.rate_limit import RateLimit


class Gate:
    """Lets requests in, or raises.

    Without tokens the service is for this machine, but a browser on it also carries the requests of other sites' pages.
    Those are told by their Origin, and those of a name that was made to point here by their Host. With tokens neither
    matters, as such a page has none.
    """

    def __init__(self, access: Access, rate: RateLimit) -> None:
        self._access, self._rate = access, rate

    def admit(self, headers: Mapping[str, str], scope: str) -> str:
        """Return the name of the token, empty if there are none; raise if the request is not let in."""
        if not self._access.tokens:
            check_site(headers)
        name = self._access.check(headers.get("authorization"), scope)
        self._rate.take(name)
        return name


def check_site(headers: Mapping[str, str]) -> None:
    """Raise if a request may come from a page of another site."""
    host, origin, site = headers.get("host"), headers.get("origin"), headers.get("sec-fetch-site")
    if host is not None and not is_loopback(_name(host)):
        raise ForbiddenError(
            f"without tokens, this service is known by names of this machine only, got {host[:100]!r}",
            "ask for localhost, or make a token with perceptrank serve --add-token",
        )
    # Images and the like are asked for without an origin, but browsers say whether the page is of another site.
    if (origin is not None and _place(origin) != host) or site in ("cross-site", "same-site"):
        raise ForbiddenError(
            f"pages of other sites may not use this service, got the origin {(origin or site or '')[:100]!r}",
            "send requests from a program, or from the service's own page",
        )


def _name(host: str) -> str:
    """Return the name or address in a Host header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _place(origin: str) -> str:
    """Return the name and port in an Origin header; empty if it has none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
