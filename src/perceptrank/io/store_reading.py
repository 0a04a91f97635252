"""The segments of a store as a reader sees them, from when it opens the store on."""

import os
import weakref
from collections import OrderedDict
from pathlib import Path
from typing import Any

from perceptrank.io.errors import FormatError
from perceptrank.io.npy_file import describe_os_error
from perceptrank.io.store_locks import hold
from perceptrank.io.store_manifest import MANIFEST, feature_kinds, is_listed, read_manifest, segment_file
from perceptrank.io.store_segments import map_segment
from perceptrank.stream.query_stream import QueryStream

_MAX_MAPPED = 16


class OpenSegments:
    """The segments that a store had when it was opened, whatever others do to the store meanwhile.

    A few segments are mapped at once. Of more, those last used are mapped, since every mapped file takes a descriptor;
    the files of all of them are held, so that nobody removes them.

    Parameters
    ----------
    folder : Path
    with_comments : bool
        Load the comments, if there are any.

    Attributes
    ----------
    manifest : dict
    """

    def __init__(self, folder: Path, with_comments: bool) -> None:
        self._folder, self._with_comments = folder, with_comments
        self._mapped: OrderedDict[int, QueryStream] = OrderedDict()
        while not self._open():
            pass

    def _open(self) -> bool:
        """Read the manifest and hold its segments; return False if another process has replaced it meanwhile."""
        stamp = _stamp(self._folder)
        handle = None
        try:
            self.manifest: dict[str, Any] = read_manifest(self._folder)
            first = self.manifest["segments"][0]["name"]
            handle = hold(segment_file(self._folder, first, feature_kinds(self.manifest)[0]))
            if not is_listed(self._folder, first):  # its files may have been removed before they were held
                return False
            if len(self) <= _MAX_MAPPED:
                for number in range(len(self)):
                    self[number]
            else:
                weakref.finalize(self, os.close, handle)
                handle = None
        except (FormatError, FileNotFoundError):
            if _stamp(self._folder) == stamp:
                raise
            return False
        except OSError as error:
            raise describe_os_error(self._folder, error) from None
        finally:
            if handle is not None:
                os.close(handle)
        return True

    def __len__(self) -> int:
        return len(self.manifest["segments"])

    def __getitem__(self, number: int) -> QueryStream:
        segment = self._mapped.pop(number, None)
        if segment is None:
            segment = map_segment(self._folder, self.manifest, number, self._with_comments)
        self._mapped[number] = segment
        if len(self._mapped) > _MAX_MAPPED:
            self._mapped.popitem(last=False)
        return segment


def _stamp(folder: Path) -> tuple[int, ...] | None:
    """Return what tells a manifest from the one that replaces it."""
    try:
        status = os.stat(folder / MANIFEST)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
