"""Data frames of whichever library the user has."""

import importlib
from collections.abc import Mapping
from typing import Any

from perceptrank.stream.validation import check_choice


def make_frame(columns: Mapping[str, Any], library: str) -> Any:
    """A data frame of pandas or polars."""
    check_choice("library", library, ("pandas", "polars"))
    try:
        frames = importlib.import_module(library)
    except ImportError:
        raise ImportError(f"to_frame needs {library}: pip install {library}") from None
    return frames.DataFrame(dict(columns))
