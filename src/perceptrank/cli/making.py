"""Make learners from their names and settings."""

import json
from typing import TYPE_CHECKING, Any

import perceptrank as pr

if TYPE_CHECKING:
    from perceptrank.learners.learner import Learner


def kinds_of(name: str) -> "list[type[Learner]]":
    """Find the classes of a name such as listnet, or bagging:adagrad:listnet, from the outermost to the innermost."""
    from perceptrank.learners.registry import find_kind, is_wrapper
    from perceptrank.stream.validation import check_choice

    *outer, algorithm = name.split(":")
    if not outer and (found := find_kind(algorithm)) is not None and not is_wrapper(found):
        return [found]
    wrappers, algorithms = pr.wrappers(), pr.algorithms()
    for one in outer:
        check_choice("what is around a learner", one, sorted(wrappers))
    if algorithm in wrappers:
        raise ValueError(f"{algorithm} wraps another learner: use {algorithm}:listwise, for example")
    check_choice("algorithm", algorithm, sorted(algorithms))
    return [*(wrappers[one] for one in outer), algorithms[algorithm]]


def settings_of(name: str) -> list[str]:
    """List what a learner of that name can be given: all settings of its parts but the learner inside."""
    return _settings(kinds_of(name))


def _own(kind: "type[Learner]") -> list[str]:
    return [name for name in kind.parameter_names if name != "learner"]


def _settings(kinds: "list[type[Learner]]") -> list[str]:
    """Those of a part inside as learner__NAME, if the part around it has a setting of that name too."""
    own = _own(kinds[0])
    inside = _settings(kinds[1:]) if len(kinds) > 1 else []
    return own + [f"learner__{one}" if one in own or one.startswith("learner__") else one for one in inside]


def has_setting(name: str, setting: str) -> bool:
    """Tell if a learner of that name can be given a setting; those of a part inside may be called learner__NAME."""
    return _has(kinds_of(name), setting)


def _has(kinds: "list[type[Learner]]", setting: str) -> bool:
    return setting in _own(kinds[0]) or (len(kinds) > 1 and _has(kinds[1:], setting.removeprefix("learner__")))


def make_learner(name: str, settings: dict[str, Any]) -> "Learner":
    """Make a learner by name, with settings that it must have; each goes to the outermost part that has it."""
    unknown = [one for one in settings if not has_setting(name, one)]
    if unknown:
        raise ValueError(f"{name} has no setting {', '.join(unknown)}; it has {', '.join(settings_of(name))}")
    return _make(kinds_of(name), dict(settings))


def _make(kinds: "list[type[Learner]]", settings: dict[str, Any]) -> "Learner":
    own = {one: settings.pop(one) for one in kinds[0].parameter_names if one in settings}
    left: dict[str, Any] = {}
    for one, value in settings.items():
        if (short := one.removeprefix("learner__")) in left:
            raise ValueError(f"{short} is set twice, also as learner__{short}")
        left[short] = value
    inside: dict[str, Any] = {"learner": _make(kinds[1:], left)} if len(kinds) > 1 else {}
    return kinds[0](**own, **inside)


def setting_in(learner: "Learner", name: str) -> Any:
    """Return the value of a setting as a model file has it, from the outermost part that has it."""
    parameters = learner.as_document()["parameters"]
    while name not in parameters:
        if "learner" not in parameters:
            return None  # a setting that model files leave out
        parameters, name = parameters["learner"]["parameters"], name.removeprefix("learner__")
    return parameters[name]


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Read settings given as name=value; a value is a number, true, false, null or text."""
    settings = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise ValueError(f"a setting must be name=value, got {pair!r}")
        try:
            settings[name.replace("-", "_")] = json.loads(text)
        except ValueError:
            settings[name.replace("-", "_")] = text
    return settings


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
            first, last, number = text.split(":")
            ends = check_positive("a learning rate", float(first)), check_positive("a learning rate", float(last))
            rates = [float(f"{rate:.6g}") for rate in np.geomspace(*ends, int(number))]
        else:
            rates = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"learning rates must be like 0.1, 0.1,1 or 1e-4:1:9, got {text!r}") from None
    if not rates or not all(0 < rate < np.inf for rate in rates):
        raise ValueError(f"learning rates must be > 0, got {text!r}")
    return rates
