"""Bearer tokens: scopes, hashed at rest, compared in constant time."""

import json
import secrets
from dataclasses import asdict, dataclass
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from perceptrank.io.atomic import write_atomically
from perceptrank.io.errors import FileFormatError
from perceptrank.serve.errors import ForbiddenError, InvalidRequestError, UnauthorizedError

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
        unknown = [one for one in scopes if one not in SCOPES]
        if unknown or not scopes:
            raise InvalidRequestError(
                f"scopes must be some of {', '.join(SCOPES)}, got {', '.join(scopes) or 'none'}", "name some of them"
            )
        if not name or any(one.name == name for one in self.tokens):
            raise InvalidRequestError(f"tokens must have names of their own, got {name!r}", "choose another")
        text = secrets.token_urlsafe(32)
        # Texts of tokens are random and long, so that a plain hash cannot be guessed.
        self.tokens.append(Token(name, scopes, sha256(text.encode()).hexdigest()))
        self._path.touch(mode=0o600)
        write_atomically(self._path, json.dumps({"tokens": [asdict(one) for one in self.tokens]}, indent=1) + "\n")
        return text

    def check(self, header: str | None, scope: str) -> str:
        """Return the name of a header's token, empty if there are none; raise if it is unknown or lacks a scope."""
        if not self.tokens:
            return ""
        kind, _, text = (header or "").partition(" ")
        if kind.lower() != "bearer" or not text:
            raise UnauthorizedError("this service needs a token", "send the header Authorization: Bearer TOKEN")
        given = sha256(text.strip().encode("utf-8", "replace")).hexdigest()
        found = None
        for one in self.tokens:  # all of them, so that the time tells nothing
            if compare_digest(one.sha256, given):
                found = one
        if found is None:
            raise UnauthorizedError("the token is not known", "perceptrank serve --add-token makes one")
        if scope not in found.scopes and (scope != "watch" or "admin" not in found.scopes):
            raise ForbiddenError(f"the token {found.name!r} lacks the scope {scope!r}", "use one that has it")
        return found.name


def _read(path: Path) -> list[Token]:
    if not path.exists():
        return []
    try:
        return [Token(**one) for one in json.loads(path.read_bytes())["tokens"]]
    except (ValueError, TypeError, KeyError) as error:
        raise FileFormatError(path, f" does not hold tokens: {error}") from None
