"""Parsing of measure names, and the conventions of other tools."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from perceptrank.measures.kinds import NDCG
from perceptrank.measures.measure import Measure, MeasureLike
from perceptrank.stream.registry import Registry
from perceptrank.stream.validation import check_choice

REGISTRY = Registry(Measure, "measure", "name", "perceptrank.measures")
_ALIASES = {"map": "ap", "precision": "p", "mrr": "rr"}


def parse(name: MeasureLike) -> Measure:
    """Parse the name of a measure.

    Parameters
    ----------
    name : str or Measure
        A name such as "ndcg@10", "ap" or "ndcg@5:gain=linear,ties=expected"; with the name of another tool in front,
        "trec_eval:ndcg@10", by the conventions of that tool, as `preset` has them. A Measure is returned unchanged.

    Examples
    --------
    >>> parse("ndcg@10")
    NDCG(k=10)
    >>> str(parse("ndcg@5:gain=linear"))
    'ndcg@5:gain=linear'
    >>> parse("sklearn:ndcg@10") == preset("scikit-learn", "ndcg@10")
    True
    """
    return parse_all([name])[0]


def parse_all(names: Iterable[MeasureLike] | MeasureLike) -> list[Measure]:
    """Parse the names of several measures; all invalid ones are reported together.

    Parameters
    ----------
    names : str, Measure, or an iterable of these

    Examples
    --------
    >>> parse_all(["ndcg@10", "ap"])
    [NDCG(k=10), AP()]
    """
    if isinstance(names, (str, Measure)):
        names = [names]
    if not isinstance(names, Iterable):
        raise TypeError(f"measures must be a name, a Measure, or a list of them, got {names!r}")
    measures, errors = [], []
    for name in names:
        if not isinstance(name, (str, Measure)):
            errors = [f"a measure must be a name or a Measure, got {name!r}; `fit(X, y, qid=…)` takes grades"]
            break
        try:
            measures.append(_parse_one(name))
        except ValueError as error:
            errors.append(str(error))
    if errors:
        known = ", ".join(f"{name}@k" if hasattr(kind, "k") else name for name, kind in REGISTRY.all().items())
        raise ValueError(f"{'; '.join(errors)}. Known measures: {known}, also by conventions of others: {_TOOLS_SHOWN}")
    return measures


def _parse_one(name: MeasureLike) -> Measure:
    if isinstance(name, Measure):
        return name
    head, _, tail = name.strip().lower().partition(":")
    if (tool := _OTHER_NAMES.get(head, head)) in PRESETS:
        kind, options = _kind_and_options(tail)
        for key, value in PRESETS[tool].items():  # options must not contradict the tool's conventions
            if options.get(key, value) != value:
                raise ValueError(f"{tool} has {key}={value}, not {key}={options[key]}: leave out {tool}: or {key}=")
        return _with_conventions(tool, kind(**options))
    kind, options = _kind_and_options(name)
    return kind(**options)


def _kind_and_options(name: str) -> tuple[type[Measure], dict[str, Any]]:
    head, _, tail = name.strip().lower().partition(":")
    base, at, cutoff = head.partition("@")
    kind = REGISTRY.find(_ALIASES.get(base, base))
    if kind is None:
        raise ValueError(f"unknown measure {name!r}")
    known = {option.name: option for option in fields(kind)}
    options: dict[str, Any] = {}
    if at:
        if "k" not in known:
            raise ValueError(f"measure {base!r} has no cut-off, got {name!r}")
        if not cutoff.isdecimal() or int(cutoff) < 1:
            raise ValueError(f"the cut-off of {name!r} must be a whole number of at least 1")
        options["k"] = int(cutoff)
    for option in tail.split(",") if tail else []:
        key, equals, value = (part.strip() for part in option.partition("="))
        if key not in known or key == "k" or not equals:
            raise ValueError(f"unknown option {option!r} of measure {name!r}")
        default = known[key].default
        try:
            options[key] = value if isinstance(default, str) else _number(value)
        except ValueError:
            raise ValueError(f"option {key!r} of measure {name!r} must be a number, got {value!r}") from None
    return kind, options


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


PRESETS: dict[str, dict[str, Any]] = {
    "lightgbm": {"ties": "stable", "empty": "one"},
    "xgboost": {"ties": "stable", "empty": "one"},
    "scikit-learn": {"ties": "expected", "empty": "zero", "gain": "linear"},
    "trec_eval": {"ties": "reverse", "empty": "zero", "gain": "linear"},
    "ir_measures": {"ties": "reverse", "empty": "zero", "gain": "linear"},
}
_OTHER_NAMES = {"sklearn": "scikit-learn", "trec-eval": "trec_eval", "ir-measures": "ir_measures"}
_TOOLS_SHOWN = "trec_eval:ndcg@10, ir_measures:…, lightgbm:…, xgboost:…, sklearn:ndcg@10"


def preset(tool: str, name: MeasureLike) -> Measure:
    """Return a measure with the conventions of another tool.

    Parameters
    ----------
    tool : "lightgbm", "xgboost", "scikit-learn", "trec_eval", or "ir_measures"
        ``lightgbm`` and ``xgboost``: gain 2^R - 1, ties in input order, a query without relevant documents counts 1.
        The others have linear gain, and 0 for such a query. ``scikit-learn``: its ndcg_score, the mean over all orders
        of tied documents; its average precision treats ties in another way and is not offered. ``trec_eval`` and
        ``ir_measures``: of tied documents the larger identifier first, which is the later one if documents are in the
        order of these. trec_eval reads scores in single precision, so it may see ties that are none here.
    name : str or Measure
        The measure; options that the tool has no convention for are kept.

    Examples
    --------
    >>> preset("scikit-learn", "ndcg@10")
    NDCG(k=10, ties='expected', empty='zero', gain='linear')
    """
    check_choice("tool", tool, PRESETS)
    return _with_conventions(tool, parse(name))


def _with_conventions(tool: str, measure: Measure) -> Measure:
    if tool == "scikit-learn" and not isinstance(measure, NDCG):
        raise ValueError(f"the scikit-learn preset offers ndcg and ndcg@k only, got {str(measure)!r}")
    options = {option.name: getattr(measure, option.name) for option in fields(measure)}
    options |= {key: value for key, value in PRESETS[tool].items() if key in options}
    return type(measure)(**options)
