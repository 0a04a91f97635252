"""The real streams that the benchmarks of ranking quality read."""

import os
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(os.environ.get("PERCEPTRANK_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def find_streams() -> Iterator[tuple[str, Path]]:
    """Every compressed LETOR file one folder below FOLDER, named by folder and file."""
    paths = sorted(FOLDER.glob("*/*.txt.gz"))
    if not paths:
        raise SystemExit(f"no */*.txt.gz under {FOLDER} (PERCEPTRANK_DATA names another folder)")
    for path in paths:
        yield f"{path.parent.name}/{path.name.removesuffix('.txt.gz')}", path
