"""Lineage: what each output of transforms is made of, in words and numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Bools, Floats, Ints
from perceptrank.transforms.forms import Piecewise


class Form(NamedTuple):
    """Something that is made of a feature, in words."""

    label: str
    unit: str  # what its weight is the effect of: "one ... more changes the score by the weight"
    of: str = ""  # what it is made of, if that is not the feature itself

    def become(self, label: str, unit: str) -> Form:
        """Return the form that a transform makes of this one."""
        if not self.of:
            return Form(label, unit)
        return Form(f"{label} of {self.of}", f"{unit}, of {self.of}", self.of)


RAW = Form("weight", "unit")


class Outputs(NamedTuple):
    """The outputs of transforms, and what they are made of: a place in each array for each output."""

    source: Ints  # the feature it is made of
    base: Ints  # a number that outputs share which rise together
    rises: Bools  # whether it rises with its feature
    factor: Floats  # what it multiplies by, since the last transform that is not linear
    linear: Bools  # whether there was none such, so that the factor is that of the raw feature
    spread: Floats  # its standard deviation as far as the transforms know it, else NaN
    form: Ints  # its form, by number
    # curve, column, place: if it is a piecewise function, whose (by number, -1 otherwise), of which of their columns,
    # and its number there
    curve: Ints
    column: Ints
    place: Ints

    def take(self, chosen: npt.NDArray[np.int64]) -> Outputs:
        """Return some of them, in this order."""
        taken: list[Any] = [values[chosen] for values in self]
        return Outputs(*taken)

    @staticmethod
    def beside(parts: list[Outputs]) -> Outputs:
        """Return the outputs of several transforms of the same features, one after the other."""
        return Outputs(*map(np.concatenate, zip(*parts, strict=True)))


class Lineage:
    """A record of what transforms make of features; each transform adds to it (`Transform.trace`)."""

    def __init__(self) -> None:
        self.forms: list[Form] = []  # of all outputs, by number
        self.curves: list[tuple[Piecewise, Form]] = []  # that outputs belong to, and what these are functions of
        self._n_bases = 0

    def start(self, n_features: int, form: Form = RAW) -> Outputs:
        """Return the features themselves."""
        self.forms.append(form)
        own, none = np.arange(n_features), np.full(n_features, -1)
        numbers = np.full(n_features, len(self.forms) - 1)
        yes, ones = np.ones(n_features, bool), np.ones(n_features)
        return Outputs(own, self.new_bases(n_features), yes, ones, yes, ones * math.nan, numbers, none, none, none)

    def new_bases(self, n: int) -> Ints:
        """Return numbers of outputs that rise with no others."""
        self._n_bases += n
        return np.arange(self._n_bases - n, self._n_bases)

    def rename(self, outputs: Outputs, describe: Callable[[Form], Form]) -> Ints:
        """Return the numbers of the forms that those of some outputs become."""
        present = np.unique(outputs.form)
        numbers = np.zeros(int(present.max()) + 1 if len(present) else 0, np.int64)
        for old in present.tolist():
            self.forms.append(describe(self.forms[old]))
            numbers[old] = len(self.forms) - 1
        return numbers[outputs.form]

    def bend(self, outputs: Outputs, describe: Callable[[Form], Form]) -> Outputs:
        """Return what a transform that is not linear makes of each, in their order, rising with it."""
        n = len(outputs.source)
        none = np.full(n, -1)
        known = outputs._replace(factor=np.ones(n), linear=np.zeros(n, bool), spread=np.full(n, math.nan))
        return known._replace(form=self.rename(outputs, describe), curve=none, column=none, place=none)

    def split(self, outputs: Outputs, functions: Piecewise, describe: Callable[[Form], Form]) -> Outputs:
        """Return what a transform of several functions of each feature makes of them."""
        n_each = functions.n_each
        column = np.repeat(np.arange(len(outputs.source)), n_each)
        place = np.tile(np.arange(n_each), len(outputs.source))
        before = self.forms[int(outputs.form[0])] if len(outputs.form) else RAW
        self.curves.append((functions, before))
        bent = self.bend(outputs, describe).take(column)
        rises = np.full(len(column), functions.kind == "thermometer") & bent.rises
        curve = np.full(len(column), len(self.curves) - 1)
        return bent._replace(rises=rises, curve=curve, column=column, place=place)
