"""Forms: what the transforms of a model make of each feature, in words, with their units and spreads."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from perceptrank.deploy.folding import linear_form
from perceptrank.kernels.arrays import Bools, Floats, Ints
from perceptrank.transforms.bins import Bins
from perceptrank.transforms.clip import Clip
from perceptrank.transforms.composition import Chain, Join
from perceptrank.transforms.missing import Missing
from perceptrank.transforms.query_minmax import QueryMinMax
from perceptrank.transforms.query_normal import QueryNormal
from perceptrank.transforms.query_rank import QueryRank
from perceptrank.transforms.query_zscore import QueryZScore
from perceptrank.transforms.signed_log import SignedLog
from perceptrank.transforms.transform import Transform


class Form(NamedTuple):
    """Something that is made of a feature, in words.

    Attributes
    ----------
    label : str
        Its short name.
    unit : str
        What its weight is the effect of: "one ... more changes the score by the weight".
    of : str
        What it is made of, if that is not the feature itself.
    """

    label: str
    unit: str
    of: str = ""

    def become(self, label: str, unit: str) -> "Form":
        """Return the form that a transform makes of this one."""
        if not self.of:
            return Form(label, unit)
        return Form(f"{label} of {self.of}", f"{unit}, of {self.of}", self.of)


RAW = Form("weight", "unit")

# Of query-wise transforms: the form's name and unit, and its spread within a query.
_WITHIN: dict[type[Transform], tuple[str, str, float]] = {
    QueryZScore: ("z-score", "standard deviation within its query", 1.0),
    QueryNormal: (
        "normal score",
        "normal score of its rank within its query (from the median to the 84th percentile)",
        1.0,
    ),
    QueryRank: ("rank", "step from the middle to the top of the ranks within its query", 1.0 / math.sqrt(3.0)),
    QueryMinMax: ("min-max", "step from the smallest to the largest value of its query", math.nan),
}


class Outputs(NamedTuple):
    """The outputs of transforms, and what they are made of: a place in each array for each output.

    Attributes
    ----------
    source : array
        The feature it is made of.
    base : array
        A number that outputs share which rise together.
    rises : array
        Whether it rises with its feature.
    factor : array
        What it multiplies by, since the last transform that is not linear.
    linear : array
        Whether there was none such, so that the factor is that of the raw feature.
    spread : array
        Its standard deviation as far as the transforms know it, else NaN.
    form : array
        Its form, by number.
    curve, column, place : array
        If it is a bin, whose (by number, -1 otherwise), of which of their columns, and its number there.
    """

    source: Ints
    base: Ints
    rises: Bools
    factor: Floats
    linear: Bools
    spread: Floats
    form: Ints
    curve: Ints
    column: Ints
    place: Ints

    def take(self, chosen: npt.NDArray[np.int64]) -> "Outputs":
        """Return some of them, in this order."""
        taken: list[Any] = [values[chosen] for values in self]
        return Outputs(*taken)


class FormWalk:
    """A walk through transforms that keeps track of what each output is made of.

    Attributes
    ----------
    forms : list of Form
        Those of all outputs, by number.
    curves : list of Bins
        The bins that outputs belong to, by number.
    """

    def __init__(self) -> None:
        self.forms: list[Form] = []
        self.curves: list[tuple[Bins, Form]] = []
        self._n_bases = 0

    def start(self, n_features: int) -> Outputs:
        """Return the features themselves."""
        own, none = np.arange(n_features), np.full(n_features, -1)
        self.forms.append(RAW)
        form = np.full(n_features, len(self.forms) - 1)
        yes, ones = np.ones(n_features, bool), np.ones(n_features)
        return Outputs(own, self._new_bases(n_features), yes, ones, yes, ones * math.nan, form, none, none, none)

    def through(self, transform: Transform, given: Outputs) -> Outputs | None:
        """Return what a transform makes of these; None if its outputs may be made of several features."""
        if isinstance(transform, Chain):
            made: Outputs | None = given
            for part in transform.parts:
                made = None if made is None else self.through(part, made)
            return made
        if isinstance(transform, Join):
            parts = [found for part in transform.parts if (found := self.through(part, given)) is not None]
            return (
                Outputs(*map(np.concatenate, zip(*parts, strict=True))) if len(parts) == len(transform.parts) else None
            )
        n = len(given.source)
        if (linear := linear_form(transform, n)) is not None:
            _, inverse = linear
            form = self._become(given, lambda form: form.become("deviation", "standard deviation over all documents"))
            return given._replace(factor=given.factor * inverse, spread=(inverse > 0.0).astype(np.float64), form=form)
        if type(transform) in _WITHIN:
            label, unit, spread = _WITHIN[type(transform)]
            made = self._curved(given, lambda form: form.become(label, unit))
            return made._replace(spread=np.full(n, spread))
        if isinstance(transform, Clip):
            limit = f"within ±{transform.limit:g}"
            made = self._curved(given, lambda form: Form(f"{form.label}, clipped", f"{form.unit} ({limit})", form.of))
            return made._replace(spread=given.spread)
        if isinstance(transform, SignedLog):
            return self._curved(given, lambda form: Form("log", "unit of log(1 + |x|)", "log(1 + |x|)"))
        if isinstance(transform, Missing):
            return self._with_indicators(given) if transform.indicator else given
        if isinstance(transform, Bins):
            return self._binned(transform, given)
        return self._other(transform, given)

    def _new_bases(self, n: int) -> Ints:
        self._n_bases += n
        return np.arange(self._n_bases - n, self._n_bases)

    def _become(self, given: Outputs, name: Callable[[Form], Form]) -> Ints:
        """Number the forms that those of some outputs become."""
        present = np.unique(given.form)
        numbers = np.zeros(int(present.max()) + 1 if len(present) else 0, np.int64)
        for old in present.tolist():
            self.forms.append(name(self.forms[old]))
            numbers[old] = len(self.forms) - 1
        return numbers[given.form]

    def _curved(self, given: Outputs, name: Callable[[Form], Form]) -> Outputs:
        """Return what a transform that is not linear makes of each, in their order, rising with it."""
        n = len(given.source)
        none = np.full(n, -1)
        return given._replace(
            factor=np.ones(n),
            linear=np.zeros(n, bool),
            spread=np.full(n, math.nan),
            form=self._become(given, name),
            curve=none,
            column=none,
            place=none,
        )

    def _with_indicators(self, given: Outputs) -> Outputs:
        made = self._curved(given, lambda form: Form("missing", "missing value", "whether it is missing"))
        made = made._replace(base=self._new_bases(len(given.source)), rises=np.zeros(len(given.source), bool))
        return Outputs(*(np.concatenate(pair) for pair in zip(given, made, strict=True)))

    def _binned(self, bins: Bins, given: Outputs) -> Outputs:
        n_each = bins.n_outputs(1)
        column = np.repeat(np.arange(len(given.source)), n_each)
        place = np.tile(np.arange(n_each), len(given.source))
        before = self.forms[int(given.form[0])] if len(given.form) else RAW
        self.curves.append((bins, before))
        made = self._curved(given, lambda _: Form("curve", "bin", "the bin")).take(column)
        return made._replace(
            rises=np.full(len(column), bins.kind == "thermometer") & made.rises,
            curve=np.full(len(column), len(self.curves) - 1),
            column=column,
            place=place,
        )

    def _other(self, transform: Transform, given: Outputs) -> Outputs | None:
        sources = transform.sources(len(given.source))
        if sources is None:
            return None
        falling = sources < 0
        made = self._curved(given, lambda form: form.become(transform.name, f"unit after {transform.name}"))
        made = made.take(np.where(falling, -1 - sources, sources))
        base = np.where(falling, self._new_bases(len(sources)), made.base)
        return made._replace(rises=made.rises & ~falling, base=base)
