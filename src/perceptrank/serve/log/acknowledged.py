"""The last entry that was acknowledged, in a file beside the log: a log that lacks it has lost answers.

SQLite reads its write-ahead log up to the first damaged frame, and takes that for the end.
"""

import os
from hashlib import blake2b
from pathlib import Path

from perceptrank.serve.log.records import FIRST_LINK

_FILE = "acknowledged"


def note_acknowledged(folder: Path, sequence: int, link: bytes) -> None:
    """Write number and link of the last entry in place; not flushed, since an older one is right as well."""
    text = f"{sequence:020d} {link.hex()}"
    handle = os.open(folder / _FILE, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        os.write(handle, f"{text} {_checksum(text)}\n".encode())
    finally:
        os.close(handle)


def last_acknowledged(folder: Path) -> tuple[int, bytes]:
    """Return number and link of the last entry that was acknowledged; 0 and the first link if that is not known."""
    try:
        text, _, checksum = (folder / _FILE).read_text("ascii").strip().rpartition(" ")
        sequence, _, link = text.partition(" ")
        return (int(sequence), bytes.fromhex(link)) if checksum == _checksum(text) else (0, FIRST_LINK)
    except (OSError, ValueError):
        return 0, FIRST_LINK


def _checksum(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
