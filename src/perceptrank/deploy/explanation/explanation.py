"""Explanations of models: weights in words and in raw units, importance, changes and contributions."""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from perceptrank.deploy.explanation.contributions import Contributions, contributions_of
from perceptrank.deploy.explanation.effects import (
    FROM_OTHER,
    UNKNOWN,
    Curve,
    Effects,
    FeatureChange,
    changes_between,
    effects_of,
    lend_spreads,
    measure_importance,
)
from perceptrank.deploy.explanation.history import History, history_of
from perceptrank.deploy.explanation.terms import Terms
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.frames import make_frame
from perceptrank.stream.query_stream import QueryStream
from perceptrank.transforms.lineage import Form

SIGNS = {1: "+", -1: "-", 0: "±"}


class Weight(NamedTuple):
    """A weight of something that is made of a feature.

    Its `form` is "weight" for the feature itself, "deviation", "z-score", "normal score", "curve", …; one `unit` of
    that adds its `value` to the score. If the model is linear in the feature, `per_unit` is its weight in raw units.
    """

    feature: str
    form: str
    value: float
    unit: str
    per_unit: float | None


class FeatureEffect(NamedTuple):
    """The effect of a feature on scores.

    Its `sign` is "+" if more of it is better, "-" if less is, "±" if it depends. Its `importance` is how far it moves
    scores, NaN if unknown, and `share` is its part of the sum over all features. Its `weights` are by form; for
    features in bins, see `Explanation.curves`. If the model is linear in it, `per_unit` is its weight in raw units.
    """

    feature: str
    sign: str
    importance: float
    share: float
    weights: dict[str, float]
    per_unit: float | None


@dataclass(frozen=True, eq=False)
class Explanation:
    """An explanation of what a model has learned, as it was when `explain` read it.

    Parameters that several methods take:

    - `top`, `n`: largest number of features, curves and changes.
    - `width`: number of columns of a text.
    - `path`: image file, whose suffix selects the format; this needs matplotlib (extra ``plot``).
    - `library`: library of a data frame, "pandas" or "polars", which must be installed.

    Attributes
    ----------
    name : str
        The learner's name.
    settings : str
        The learner as Python spells it.
    history : History
        What it has seen and lost.
    importance_is : str
        How importance was found: from the transforms, from a stream, or that it is unknown.
    changes : tuple of FeatureChange
        Change of each feature since the earlier model, if one was given.
    notes : tuple of str
        Notes on the features.
    """

    name: str
    settings: str
    history: History
    importance_is: str
    changes: tuple[FeatureChange, ...]
    notes: tuple[str, ...]
    _terms: Terms
    _effects: Effects
    _stream: Blocks | None

    @property
    def features(self) -> tuple[FeatureEffect, ...]:
        """Features that have a weight, the most important first; by the size of weights if importance is unknown."""
        return self.largest(None)

    def largest(self, n: int | None) -> tuple[FeatureEffect, ...]:
        """Return the most important features first; by the size of weights if importance is unknown."""
        terms, effects, chosen = self._terms, self._effects, self._order[:n]
        whole = float(effects.importance[self._order].sum())
        weights: dict[int, dict[str, float]] = {j: {} for j in chosen.tolist()}
        raw: dict[int, float | None] = dict.fromkeys(weights, 0.0)
        outputs = terms.outputs
        for k in np.flatnonzero(np.isin(outputs.source, chosen)).tolist():
            j, label, weight = int(outputs.source[k]), terms.forms[outputs.form[k]].label, float(terms.weights[k])
            if outputs.curve[k] < 0:
                weights[j][label] = weights[j].get(label, 0.0) + weight
            before = raw[j]
            raw[j] = None if before is None or not outputs.linear[k] else before + weight * float(outputs.factor[k])
        rows = []
        for j in chosen.tolist():
            importance = float(effects.importance[j])
            share = 0.0 if whole == 0.0 else importance / whole
            sign = SIGNS[int(effects.signs[j])]
            rows.append(FeatureEffect(terms.features[j], sign, importance, share, weights[j], raw[j]))
        return tuple(rows)

    @cached_property
    def _order(self) -> Ints:
        present = np.unique(self._terms.outputs.source)
        importance = self._effects.importance[present]
        key = _sizes(self._terms)[present] if np.isnan(importance).any() else importance
        return present[np.argsort(-key, kind="stable")]

    @property
    def n_weighted(self) -> int:
        """Number of features that have a weight."""
        return len(self._order)

    @property
    def weights(self) -> tuple[Weight, ...]:
        """All weights that are not 0, those of the most important feature first."""
        terms, place = self._terms, {j: number for number, j in enumerate(self._order.tolist())}
        outputs, rows = terms.outputs, []
        for k, value in enumerate(terms.weights.tolist()):
            form, j = terms.forms[int(outputs.form[k])], int(outputs.source[k])
            label = form.label if outputs.curve[k] < 0 else f"{form.label} {int(outputs.place[k])}"
            raw = value * float(outputs.factor[k]) if outputs.linear[k] else None
            rows.append((place[j], Weight(terms.features[j], label, value, form.unit, raw)))
        return tuple(weight for _, weight in sorted(rows, key=lambda pair: pair[0]))

    @property
    def importance(self) -> dict[str, float]:
        """Importance of each feature that has a weight, largest first; NaN if it is not known (`importance_is`)."""
        return {row.feature: row.importance for row in self.features}

    @property
    def curves(self) -> dict[str, list[Curve]]:
        """The parts of the score that features in bins add, by name, the most important first."""
        own: dict[int, list[Curve]] = {}
        for curve in self._effects.curves:
            own.setdefault(curve.feature, []).append(curve)
        return {self._terms.features[j]: own[j] for j in self._order.tolist() if j in own}

    @property
    def forms(self) -> list[Form]:
        """The forms that features have, in words, in the order of the transforms."""
        return list(dict.fromkeys(self._terms.forms[number] for number in np.unique(self._terms.outputs.form)))

    @property
    def n_features(self) -> int:
        """Number of features, those without a weight included."""
        return len(self._terms.features)

    def contributions(self, query: Any = None) -> Contributions:
        """Return what each feature contributes to the scores of the documents of a query; they add up exactly.

        Parameters
        ----------
        query : value or QueryStream, optional
            Id of a query of the stream that was explained, by default its first; or a stream of one query.

        Raises
        ------
        ValueError
            If there is no such query, or no stream to find it in, or a stream has several.
        """
        if isinstance(query, QueryStream):
            if len(query) != 1:
                raise ValueError(f"contributions are those of one query, got {len(query)}")
            return contributions_of(self._terms, query)
        if self._stream is None:
            raise ValueError("the explanation has no stream to find a query in: give it one, or a stream of one query")
        return contributions_of(self._terms, find_query(self._stream, query))

    def to_frame(self, library: str = "pandas") -> Any:
        """Return a data frame with a row for each feature that has a weight."""
        rows = self.features
        labels = list(dict.fromkeys(label for row in rows for label in row.weights))
        columns: dict[str, Any] = {
            "feature": [row.feature for row in rows],
            "sign": [row.sign for row in rows],
            "importance": [row.importance for row in rows],
            "share": [row.share for row in rows],
            **{label: [row.weights.get(label, math.nan) for row in rows] for label in labels},
            "per unit": [math.nan if row.per_unit is None else row.per_unit for row in rows],
        }
        return make_frame(columns, library)

    def as_plain(self, top: int | None = None) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {
            "algorithm": self.name,
            "settings": self.settings,
            "history": self.history.as_plain(),
            "importance": self.importance_is,
            "units": {form.label: form.unit for form in self.forms},
            "n_features": self.n_features,
            "features": [row._asdict() for row in self.largest(top)],
            "curves": {
                name: [{"edges": each.edges.tolist(), "values": each.values.tolist(), "of": each.of} for each in own]
                for name, own in islice(self.curves.items(), top)
            },
            "changes": [change._asdict() for change in self.changes[:top]],
            "notes": list(self.notes),
        }

    def text(self, *, width: int = 80, top: int = 20) -> str:
        """Return the explanation as text for a terminal."""
        from perceptrank.deploy.explanation.text import explanation_text

        return explanation_text(self, width, top)

    def plot(self, path: Any, *, top: int = 12) -> None:
        """Plot the explanation: curves of features in bins, or a bar for each of the most important features."""
        from perceptrank.deploy.explanation.plot import draw_explanation

        draw_explanation(self, path, top)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Explanation of {self.name}: {self.n_weighted} of {self.n_features} features have a weight>"

    def _repr_html_(self) -> str:
        from perceptrank.deploy.explanation.page import explanation_html

        return explanation_html(self)


def explain(ranker: Any, stream: Blocks | None = None, *, since: Any = None) -> Explanation:
    """Explain what a model has learned: weights, importance, sign, history, changes, and contributions to scores.

    Parameters
    ----------
    ranker : learner
        One that has learned; of a tournament, the leader is explained, of a sum, all its members together.
    stream : QueryStream or iterable of blocks, optional
        Queries for `contributions`, and to measure importance on, as the spread of contributions within queries;
        without it, spreads are those that the model's transforms know. Named features may be more, and in any order.
    since : learner, optional
        Another model, such as that of yesterday, to compare with.

    Raises
    ------
    ValueError
        If the model has learned nothing, does not rank by weights of features, or has other features than the stream.

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.QueryStream.from_arrays(
    ...     [[1.0, 9.0], [3.0, 5.0]], [0, 1], feature_names=["title", "price"]
    ... )
    >>> ranker = pr.ListwisePerceptron(transforms=None)
    >>> trace = ranker.learn(stream)
    >>> explanation = explain(ranker, stream)
    >>> [(row.feature, row.sign, row.per_unit) for row in explanation.features]
    [('price', '-', -4.0), ('title', '+', 2.0)]
    >>> query = explanation.contributions()
    >>> query.documents, query.total(0) == float(ranker.predict(stream).max())
    (('2', '1'), True)
    """
    first, kept = stream if isinstance(stream, QueryStream) else None, stream
    if stream is not None and first is None:
        blocks = as_blocks(stream, required=True)
        first = next(blocks)
        if iter(stream) is stream:  # what is read is gone
            stream, kept = chain([first], blocks), None
    models = [Terms.of(ranker, first)]
    if since is not None:
        try:
            models.append(Terms.of(since, first))
        except ValueError as error:
            if first is None:
                raise
            raise ValueError(
                f"the other model cannot rank the queries to compare by: {error}; without queries, models are compared "
                "by what they know"
            ) from None
    measured = [None] * len(models) if stream is None else measure_importance(models, stream)
    effects = [effects_of(terms, importance) for terms, importance in zip(models, measured, strict=True)]
    notes = list(models[0].notes)
    changes: tuple[FeatureChange, ...] = ()
    if since is not None:
        for k in (0, 1):
            if effects[k].importance_is == UNKNOWN:
                effects[k] = lend_spreads(models[k], effects[k], models[1 - k])
        kinds = {own.importance_is for own in effects} - {FROM_OTHER}
        if UNKNOWN in kinds:
            notes.append("changes are of weights alone, each a share of all, as importance is unknown: give queries")
        elif len(kinds) > 1:
            notes.append("the models know spreads of different kinds: give queries to compare both by the same")
        changes = changes_between(*(_shares(models[k], effects[k], by_weight=UNKNOWN in kinds) for k in (1, 0)))
    name = str(getattr(ranker, "name", type(ranker).__name__))
    terms, own = models[0], effects[0]
    history = history_of(terms.model, terms.state)
    return Explanation(name, repr(ranker), history, own.importance_is, changes, tuple(notes), terms, own, kept)


def find_query(stream: Blocks, qid: Any) -> QueryStream:
    """Return one query of a stream, by id (as it is, or as text), or the first."""
    for block in as_blocks(stream, required=True):
        if qid is None:
            return block[:1]
        for number, own in enumerate(block.qids.tolist()):
            if own == qid or str(own) == str(qid):
                return block[number : number + 1]
    raise ValueError(f"the stream has no query {qid!r}")


def _sizes(terms: Terms) -> Floats:
    """Return the sum of the absolute weights of each feature, in raw units if they have such."""
    size = np.zeros(len(terms.features))
    np.add.at(size, terms.outputs.source, np.abs(terms.weights * terms.outputs.factor))
    return size


def _shares(terms: Terms, effects: Effects, *, by_weight: bool) -> dict[str, float]:
    net = np.where(effects.signs == 0, 1, effects.signs) * _sizes(terms) if by_weight else effects.net
    whole = float(np.abs(net).sum())
    return {terms.features[j]: float(net[j]) / whole for j in np.flatnonzero(net).tolist()}
