"""Learners from files of users."""

import importlib.util
import sys
from pathlib import Path

from perceptrank import learners
from perceptrank.learners.base import Learner


def load_file(path: str | Path) -> list[str]:
    """Import a file and register the learners that it defines; returns their names."""
    path = Path(path)
    name = f"perceptrank_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise ImportError(f"cannot load the plugin {path}: it is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    own = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == name]
    kinds = {one.algorithm: one for one in own if issubclass(one, Learner) and hasattr(one, "algorithm")}
    learners._all_kinds().update(kinds)
    return list(kinds)
