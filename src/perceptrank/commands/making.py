"""Learners from what is said on the command line."""

import json
from typing import Any

import numpy as np

from perceptrank.learners import algorithms
from perceptrank.learners.base import Learner
from perceptrank.validation import check_choice, check_positive


def make_learner(algorithm: str, settings: dict[str, Any]) -> Learner:
    """A learner by name, with settings that it must have."""
    check_choice("algorithm", algorithm, sorted(algorithms()))
    kind = algorithms()[algorithm]
    unknown = [name for name in settings if name not in kind.parameter_names]
    if unknown:
        raise ValueError(f"{algorithm} has no setting {', '.join(unknown)}; it has {', '.join(kind.parameter_names)}")
    return kind(**settings)


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Settings given as name=value; a value is a number, true, false, null or text."""
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
    """Learning rates: one, several with commas, or first:last:number, spaced evenly on a logarithmic scale.

    >>> parse_rates("0.1,1"), [round(rate, 4) for rate in parse_rates("1e-2:1:3")]
    ([0.1, 1.0], [0.01, 0.1, 1.0])
    """
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
