"""Files of traces: .npz archives of vectors that say in the archive's comment which version they are of."""

import os
import re
import zipfile
from typing import IO

import numpy as np

from perceptrank.io.atomic import replaced_file
from perceptrank.io.errors import FileFormatError
from perceptrank.io.model_file import WRITTEN_BY, too_new
from perceptrank.io.npy_file import read_vector
from perceptrank.kernels.arrays import Floats

VERSION = 1
_COMMENT = re.compile(rb"perceptrank trace, version (\d{1,9}), written by ([ -~]+)")  # archives of 0.1.0 have none


def write_arrays(path: str | os.PathLike[str], arrays: dict[str, Floats]) -> None:
    """Write vectors by name, atomically, as `numpy.load` reads them."""
    with replaced_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = f"perceptrank trace, version {VERSION}, written by {WRITTEN_BY}".encode()
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asarray(array), allow_pickle=False)


def read_arrays(path: str | os.PathLike[str], file: IO[bytes], max_bytes: int) -> dict[str, Floats]:
    """Read the float64 vectors of an .npz file, whose entries tell their sizes before they are decompressed."""
    with zipfile.ZipFile(file) as archive:
        _check_version(path, archive.comment)
        entries = archive.infolist()
        n_bytes = sum(entry.file_size for entry in entries)
        if n_bytes > max_bytes:
            problem = f" takes {n_bytes} bytes in memory, more than the limit of {max_bytes}; if you trust it, "
            raise FileFormatError(path, f"{problem}`max_bytes={n_bytes}` reads it")
        arrays = {}
        for entry in entries:
            if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError("it is encrypted, or compressed in another way than traces are")
            with archive.open(entry) as packed:
                arrays[entry.filename.removesuffix(".npy")] = read_vector(packed, entry.file_size)
                packed.read(1)  # at its end, the checksum is compared
        return arrays


def _check_version(path: str | os.PathLike[str], comment: bytes) -> None:
    found = _COMMENT.fullmatch(comment)
    if found is not None and int(found[1]) > VERSION:
        about = {"version": int(found[1]), "written_by": found[2].decode()}
        raise FileFormatError(path, f" {too_new(about, VERSION)}")
