"""Learners by name: those of this package, of installed packages, and those that a user registers.

A learner of this package is found by standing in this folder. Other packages name theirs as entry points of the group
``perceptrank.learners``, under the name of the algorithm; a class from anywhere can be registered with `register`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from perceptrank.io import model_file
from perceptrank.io.errors import FileFormatError
from perceptrank.learners.learner import Learner
from perceptrank.learners.sklearn_adapter import Parameter
from perceptrank.stream.columns import add_columns, added_columns, withdraw
from perceptrank.stream.registry import Registry, construct
from perceptrank.transforms import registry as transforms

_FOLDERS = ("perceptrank.learners", "perceptrank.learners.published", "perceptrank.learners.clicks")
REGISTRY = Registry(Learner, "learner", "algorithm", *_FOLDERS)  # type: ignore[type-abstract]
Kind = TypeVar("Kind", bound=type[Learner])


@dataclass(frozen=True)
class Plugin:
    """A file that was loaded: the name of its module, its own, and what was in it."""

    module: str
    file_name: str
    source: bytes


_plugins: dict[str, Plugin] = {}
_DAMAGE = (AttributeError, IndexError, KeyError, MemoryError, OverflowError, RecursionError, TypeError, ValueError)


class UnknownAlgorithmError(ValueError):
    """There is no learner of that name."""


def register(kind: Kind) -> Kind:
    """Make a learner known by its `algorithm` to `algorithms`, `load` and the command line; also a class decorator.

    Parameters
    ----------
    kind : subclass of Learner
        It has an `algorithm` of its own, in lower-case letters, digits and hyphens, and can be constructed without
        arguments (with nothing but a learner, if it wraps one).

    Examples
    --------
    >>> import perceptrank as pr
    >>> @register
    ... class Centroid(pr.NumpyLearner):
    ...     '''Move towards the mean of relevant documents, away from the mean of all.'''
    ...     algorithm = "centroid"
    ...     def update(self, scores, X, relevance):
    ...         return relevance / max(relevance.sum(), 1) - 1 / len(relevance)
    >>> pr.algorithms()["centroid"]().learn_one([[1.0, 0.0], [0.0, 1.0]], [1, 0])
    True
    >>> unregister("centroid")
    """
    name = REGISTRY.check_name(kind)
    if not is_wrapper(kind):
        learner = construct(kind)
        if "_model" not in learner.__dict__:
            raise TypeError(f"the constructor of {kind.__name__} must end in self.__post_init__()")
        if missing := [name for name, value in learner.get_params(deep=False).items() if isinstance(value, Parameter)]:
            raise TypeError(
                f"the constructor of {kind.__name__} must store its argument {missing[0]} as self.{missing[0]}"
            )
    REGISTRY.registered[name] = kind
    return kind


def unregister(name: str) -> None:
    """Forget a learner that was registered.

    Parameters
    ----------
    name : str
        Its `algorithm`.

    Examples
    --------
    >>> unregister("nothing")
    Traceback (most recent call last):
        ...
    ValueError: no learner of the name 'nothing' was registered
    """
    REGISTRY.unregister(name)


def load_file(path: str | os.PathLike[str]) -> list[type[Learner]]:
    """Run a Python file; register the learners, transforms and columns that it defines; if that fails, none of them."""
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"there is no plugin {source}")
    resolved = source.resolve()
    # Files of the same name in two folders are two modules; a file that is loaded twice is one.
    digest = hashlib.sha256(os.fsencode(resolved)).hexdigest()[:8]
    name = f"perceptrank_plugin_{re.sub(r'[^0-9A-Za-z_]', '_', source.stem)}_{digest}"
    return _load(Plugin(name, source.name, source.read_bytes()), resolved, source)


def load_plugin(plugin: Plugin, path: Path) -> list[type[Learner]]:
    """Load what another process has loaded, from a file with the same content, as a module of the same name.

    Learners of other plugins that have the name of one of its own give way to it.
    """
    others = {name: kind for name, kind in REGISTRY.registered.items() if kind.__module__ in _plugins}
    for name in others:
        del REGISTRY.registered[name]
    try:
        return _load(plugin, path, Path(plugin.file_name))
    finally:
        for name, kind in others.items():
            REGISTRY.registered.setdefault(name, kind)


def plugins() -> list[Plugin]:
    """Return the files that were loaded, in their order, as other processes need them."""
    return list(_plugins.values())


def _load(plugin: Plugin, path: Path, source: Path) -> list[type[Learner]]:
    name = plugin.module
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"plugin {source} must be a Python file, *.py")
    module = importlib.util.module_from_spec(spec)
    before, module_before, columns_before = dict(REGISTRY.registered), sys.modules.get(name), added_columns()
    sys.modules[name] = module
    try:
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise ValueError(f"plugin {source} cannot be run: {type(error).__name__}: {error}") from error
        for kind in REGISTRY.defined_in(module).values():
            register(kind)
        own_transforms = transforms.register_module(module)
        learners = [kind for name, kind in REGISTRY.registered.items() if before.get(name) is not kind]
        own_columns = [column for column in added_columns() if not any(column is old for old in columns_before)]
        if not learners and not own_transforms and not own_columns:
            kinds = "a subclass of Learner with an algorithm name; and no transform or column"
            raise ValueError(f"plugin {source} defines no learner: {kinds}")
    except BaseException:
        sys.modules.pop(name, None)
        if module_before is not None:
            sys.modules[name] = module_before
        REGISTRY.registered = before
        for column in added_columns():
            if column not in columns_before:
                withdraw(column.name)
        add_columns(columns_before)
        raise
    _plugins[name] = plugin
    return learners


def algorithms(*, clicks: bool = False) -> dict[str, type[Learner]]:
    """Return name and class of every learner that learns from grades; each can be constructed without arguments.

    Parameters
    ----------
    clicks : bool
        Return those that learn from clicks instead.

    Examples
    --------
    >>> list(algorithms())  # doctest: +NORMALIZE_WHITESPACE
    ['buffered-pairwise', 'category-ranking', 'committee', 'kernel', 'listnet', 'listwise', 'margin-prank', 'minimax',
     'oap-bpm', 'opauc', 'perceptron', 'prank', 'predtron', 'ranknet', 'ridge', 'slam', 'solar-1', 'solar-2',
     'structured-ndcg', 'sum', 'svm-map', 'toppush', 'tournament', 'uneven-margins']
    >>> list(algorithms(clicks=True))
    ['3pr', 'clicks', 'examined', 'fair-pairs', 'ips-listwise', 'pdgd', 'rtop-k']
    """
    kinds = {name: kind for name, kind in REGISTRY.all().items() if kind.learns and not is_wrapper(kind)}
    return {name: kind for name, kind in kinds.items() if (kind.takes == "clicks") == clicks}


def wrappers() -> dict[str, type[Learner]]:
    """Return name and class of everything that is put around one learner.

    Examples
    --------
    >>> list(wrappers())
    ['adagrad', 'bagging', 'fading', 'forgetting', 'trees']
    """
    return {name: kind for name, kind in REGISTRY.all().items() if is_wrapper(kind)}


def is_wrapper(kind: type[Learner]) -> bool:
    """Tell whether a class is constructed around one other learner, and named together with it."""
    return "learner" in kind.parameter_names


def find_kind(name: str) -> type[Learner] | None:
    """Return the learner or wrapper of a name, None if there is none; a file of that name is looked at first."""
    return REGISTRY.find(name)


def from_document(document: dict[str, Any]) -> Learner:
    """Return the model of a dictionary that a learner's `as_document` made; raise if it is inconsistent."""
    name = document.get("algorithm")
    kind = find_kind(name) if isinstance(name, str) else None
    if kind is None:
        advice = "; register its class, or name its file with --plugin" if isinstance(name, str) else ""
        raise UnknownAlgorithmError(f"a model of the unknown algorithm {name!r}{advice}")
    return kind.from_document(document)


def load(path: str | Path) -> Learner:
    """Read a model that `save` wrote; it goes on learning as if it had never stopped.

    Raises `FormatError` if the file is not a model, or is damaged, or its learner is unknown.

    Parameters
    ----------
    path : str or Path
        The model file.

    Examples
    --------
    >>> import perceptrank as pr, tempfile
    >>> ranker = pr.ListwisePerceptron()
    >>> trace = ranker.learn(pr.mslr_shaped(20, n_documents=5, n_features=4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ranker.save(f"{folder}/model.json")
    ...     restored = load(f"{folder}/model.json")
    >>> restored, restored.n_queries
    (ListwisePerceptron(), 20)
    """
    return restore(path, model_file.read_model(path))


def restore(path: str | Path, document: dict[str, Any]) -> Learner:
    """Return the model of a document that was read from a file; raise `FormatError` if it is inconsistent."""
    try:
        return from_document(document)
    except UnknownAlgorithmError as error:
        problem = f" holds {error}"
    except _DAMAGE as error:
        problem = " is damaged: " + (f"{error} is missing" if isinstance(error, KeyError) else str(error))
    # Not in the handlers: who sends errors between processes (Dask does) sends what they came from as well, and the
    # frames of too deep a recursion cannot be sent.
    raise FileFormatError(path, problem + model_file.newer_writer(document))
