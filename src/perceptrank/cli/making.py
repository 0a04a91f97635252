"""Learners from their names and settings, and models from files."""

import json
import os
import runpy
from pathlib import Path
from typing import Any

import perceptrank as pr

_HEAD = 2**12
_MARK = b'"perceptrank model"'


def kinds_of(name: str) -> "list[type[pr.Learner]]":
    """Find the classes of a name such as listnet, or bagging:adagrad:listnet, from the outermost to the innermost."""
    from perceptrank.learners.registry import find_kind, is_wrapper
    from perceptrank.stream.validation import check_choice

    *outer, algorithm = name.split(":")
    if not outer and (kind := find_kind(algorithm)) is not None and not is_wrapper(kind):
        return [kind]
    wrappers, algorithms = pr.wrappers(), pr.algorithms() | pr.algorithms(clicks=True)
    for wrapper in outer:
        check_choice("what is around a learner", wrapper, sorted(wrappers))
    if algorithm in wrappers:
        if wrappers[algorithm].__signature__.parameters["learner"].default is None:  # it has listwise by default
            return [*(wrappers[name] for name in (*outer, algorithm)), algorithms["listwise"]]
        raise ValueError(f"{algorithm} wraps another learner: use {algorithm}:listwise, for example")
    check_choice("algorithm", algorithm, sorted(algorithms))
    return [*(wrappers[wrapper] for wrapper in outer), algorithms[algorithm]]


def load_contenders(path: Path) -> dict[str, Any]:
    """Run a Python file; return its dictionary `contenders` of names and models."""
    try:
        contenders = runpy.run_path(str(path)).get("contenders")
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
    if not isinstance(contenders, dict) or not contenders or not all(isinstance(name, str) for name in contenders):
        raise ValueError(f"{path} must define contenders, a dictionary of names and models, got {contenders!r}")
    return contenders


def _own(kind: "type[pr.Learner]") -> list[str]:
    return [name for name in kind.parameter_names if name != "learner"]


def _settings(kinds: "list[type[pr.Learner]]") -> list[str]:
    """List the settings of all parts; one inside is learner__NAME if the part around it has that name too."""
    own = _own(kinds[0])
    inside = _settings(kinds[1:]) if len(kinds) > 1 else []
    return own + [f"learner__{name}" if name in own or name.startswith("learner__") else name for name in inside]


def has_setting(name: str, setting: str) -> bool:
    """Tell if a learner of that name can be given a setting; those of a part inside may be called learner__NAME."""
    for kind in kinds_of(name):
        if setting in _own(kind):
            return True
        setting = setting.removeprefix("learner__")
    return False


def make_learner(name: str, settings: dict[str, Any]) -> "pr.Learner":
    """Make a learner by name, with settings that it must have; each goes to the outermost part that has it."""
    unknown = [setting for setting in settings if not has_setting(name, setting)]
    if unknown:
        raise ValueError(f"{name} has no setting {', '.join(unknown)}; it has {', '.join(_settings(kinds_of(name)))}")
    if isinstance(path := settings.get("examination"), str):
        settings = settings | {"examination": read_bias(Path(path))}
    return _make(kinds_of(name), settings)


def _make(kinds: "list[type[pr.Learner]]", settings: dict[str, Any]) -> "pr.Learner":
    own, left = dict[str, Any](), dict[str, Any]()
    for setting, value in settings.items():
        if setting in kinds[0].parameter_names:
            own[setting] = value
        elif (short := setting.removeprefix("learner__")) in left:
            raise ValueError(f"{short} is set twice, also as learner__{short}")
        else:
            left[short] = value
    if len(kinds) > 1:
        own["learner"] = _make(kinds[1:], left)
    return kinds[0](**own)


def setting_in(learner: "pr.Learner", name: str) -> Any:
    """Return the value of a setting as a model file has it, from the outermost part that has it."""
    parameters = learner.as_document()["parameters"]
    while name not in parameters:
        inner = parameters.get("learner") or (parameters.get("learners") or [None])[-1]
        if inner is None:
            return None  # a setting that model files leave out
        parameters, name = inner["parameters"], name.removeprefix("learner__")
    return parameters[name]


def read_bias(path: Path) -> "pr.clicks.PositionBias":
    """Read what `position-bias --json` printed."""
    try:
        return pr.clicks.PositionBias.from_plain(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} is not what 'perceptrank position-bias --json' prints ({what})") from None


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Read settings given as name=value; a value is a number, numbers with commas, true, false, null or text."""
    settings = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise ValueError(f"a setting must be name=value, got {pair!r}")
        settings[name.replace("-", "_")] = _parse_value(text)
    return settings


def _parse_value(text: str) -> Any:
    """Return JSON as its value, numbers with commas as a list, and else the text.

    >>> _parse_value("1"), _parse_value("1,0.5"), _parse_value("a,b")
    (1, [1.0, 0.5], 'a,b')
    """
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [float(part) for part in text.split(",")] if "," in text else text
    except ValueError:
        return text


def parse_rates(text: str) -> list[float]:
    """Read learning rates: one, several with commas, or first:last:number, spaced evenly on a logarithmic scale.

    Examples
    --------
    >>> parse_rates("0.1,1"), [round(rate, 4) for rate in parse_rates("1e-2:1:3")]
    ([0.1, 1.0], [0.01, 0.1, 1.0])
    """
    import numpy as np

    from perceptrank.stream.validation import check_positive

    try:
        if ":" in text:
            *ends, number = text.split(":")
            first, last = (check_positive("a learning rate", float(end)) for end in ends)
            rates = [float(f"{rate:.6g}") for rate in np.geomspace(first, last, int(number))]
        else:
            rates = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"learning rates must be like 0.1, 0.1,1 or 1e-4:1:9, got {text!r}") from None
    if not rates or not all(0 < rate < np.inf for rate in rates):
        raise ValueError(f"learning rates must be > 0, got {text!r}")
    return rates


def split_models(first: str, others: list[str]) -> tuple[list[str], list[str]]:
    """Split the arguments after a model into further models, which come first, and files of judged queries."""
    n = next((k for k, path in enumerate(others) if not _is_model(path)), len(others))
    models, files = [first, *others[:n]], others[n:]
    if files and files[0].lower().endswith(".json") and not os.path.lexists(files[0]):
        raise FileNotFoundError(f"there is no file {files[0]}")  # it would have been a model
    if twice := sorted({path for path in models if models.count(path) > 1}):
        raise ValueError(f"{twice[0]} is given twice: name different models")
    if not files:
        named = ", ".join(models)
        raise ValueError(f"there are no queries to rank: {named} are models; name the files of queries after them")
    return models, files


def _is_model(path: str) -> bool:
    """Tell whether a file holds a model, or weights: JSON, one object, and not lines of it."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        head = file.read(_HEAD).lstrip()
        if not head.startswith(b"{") or _MARK in head or not path.lower().endswith(".json"):
            return head.startswith(b"{") and _MARK in head
        file.seek(0)
        try:
            return isinstance(json.load(file), dict)
        except (ValueError, RecursionError):
            return False


def weights_of(path: str | Path) -> Any:
    """Return the weights that a file holds by name, None if it is a model of ours."""
    from perceptrank.io.weights_file import is_model, read_weights

    return None if is_model(path) else read_weights(path)


def load_ranker(path: str) -> "pr.Learner":
    """Load a model, or make a ranker of the weights that a file holds."""
    weights = weights_of(path)
    return pr.load(path) if weights is None else pr.FixedRanker(weights)
