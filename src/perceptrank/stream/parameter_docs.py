"""Docstrings of classes, completed by what their base classes say about parameters."""

import inspect
import re
from functools import cache

_PARAMETERS = re.compile(r"^Parameters\n-{10}\n(.*?)(?=\n\n\w[^\n]*\n-{3,}\n|\Z)", re.M | re.S)


def add_inherited_parameters(kind: type) -> None:
    """Add to the docstring of a class the parameters that it takes and only its base classes document."""
    inherited: dict[str, str] = {}
    for base in reversed(kind.__mro__[1:-1]):
        inherited |= _entries(base.__doc__ or "")
    if not kind.__doc__ or not inherited:  # as with python -OO
        return
    own, takes = _entries(kind.__doc__), inspect.signature(kind).parameters
    missing = dict.fromkeys(inherited[name] for name in takes if name in inherited and name not in own)
    if missing:
        docstring = inspect.cleandoc(kind.__doc__)
        section = _PARAMETERS.search(docstring)
        place = section.end() if section else len(re.split(r"\n\n\w[^\n]*\n-{3,}\n", docstring, maxsplit=1)[0])
        heading = "" if section else "\n\nParameters\n----------"
        kind.__doc__ = "\n".join([docstring[:place] + heading, *missing]) + docstring[place:]


@cache
def _entries(docstring: str) -> dict[str, str]:
    """Return the entries of the section of parameters, by each name that they document."""
    section = _PARAMETERS.search(inspect.cleandoc(docstring))
    entries = re.split(r"\n(?=\S)", section[1]) if section else []
    return {name.strip("* "): entry for entry in entries for name in entry.partition(" : ")[0].split(",")}
