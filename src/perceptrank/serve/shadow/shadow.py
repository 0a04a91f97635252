"""Shadow mode: one model ranks, others learn silently from the same answers and are compared with it.

Everything here is a function of the log's entries alone, so that a replay has the same challengers, the same bits and
the same comparisons. What further watches the rounds, such as an alert, belongs beside the comparison of a challenger:
`after_answers` has each round's values, before and in the order of learning.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perceptrank.evaluation.running_difference import RunningDifference
from perceptrank.io.model_file import model_text, parse_model
from perceptrank.kernels.arrays import Floats
from perceptrank.learners.learner import Learner
from perceptrank.learners.registry import restore
from perceptrank.measures import ERR, Measure, parse
from perceptrank.serve.columns import Columns
from perceptrank.serve.log.log import Row
from perceptrank.serve.log.records import AnswerEntry, ChallengerEntry, PromotionEntry, RemovalEntry
from perceptrank.stream.query_stream import QueryStream

if TYPE_CHECKING:
    from perceptrank.serve.replay import Current

# What a learner may make of an answer it cannot learn from: errors that depend on the answer and the state alone.
_REFUSALS = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError)


@dataclass(frozen=True)
class Challenger:
    """A model that learns silently.

    Attributes
    ----------
    model : Learner
    measure : str
        What it is compared by.
    since : int
        Entry from which on it is compared with the model that ranks now.
    number : int
        How many comparisons with the model that ranks now had begun by then, this one included.
    compared : RunningDifference
        The model that ranks, and this one.
    refused : int
        How many answers it could not learn from.
    refusal : str
        The reason for the last one of these.
    """

    model: Learner
    measure: str
    since: int
    number: int
    compared: RunningDifference = field(default_factory=RunningDifference)
    refused: int = 0
    refusal: str = ""

    def needed(self, error: float) -> float:
        """Return the evidence that makes it better, so that of all comparisons with one model, few are wrong.

        The numbers n of comparisons have errors of error / (n (n + 1)), whose sum is at most `error`, however many
        there will be.
        """
        return self.number * (self.number + 1) / error

    def is_better(self, error: float) -> bool:
        """Tell whether it is shown to be better."""
        return self.compared.log_evidence >= math.log(self.needed(error))


class Promotion(NamedTuple):
    """The last promotion: the version it made, the challenger's name, and the error rate, None if done by hand."""

    version: int
    name: str
    error: float | None


@dataclass(frozen=True)
class Shadow:
    """The challengers of a ranker, and whether the model that ranks learns too.

    Attributes
    ----------
    challengers : mapping from names to Challenger
        In the order in which they came; never changed.
    is_fixed : bool
        True if the model that ranks stays as it is.
    known : tuple of str
        All names that challengers ever had.
    begun : int
        How many comparisons with the model that ranks now have begun.
    promotion : Promotion or None
        The last one.
    """

    challengers: Mapping[str, Challenger] = field(default_factory=dict)
    is_fixed: bool = False
    known: tuple[str, ...] = ()
    begun: int = 0
    promotion: Promotion | None = None

    @property
    def is_active(self) -> bool:
        """True if answers are more than something to learn from for the model that ranks."""
        return self.is_fixed or bool(self.challengers)

    def restarted(self, version: int, *, is_fixed: bool = False, without: str | None = None) -> "Shadow":
        """Return it with comparisons that begin anew, as those so far were with a model that no longer ranks."""
        kept = {name: one for name, one in self.challengers.items() if name != without}
        anew = {
            name: replace(one, since=version, number=number, compared=RunningDifference())
            for number, (name, one) in enumerate(kept.items(), start=1)
        }
        return replace(self, challengers=anew, is_fixed=is_fixed, begun=len(anew))

    def after(self, version: int, entry: ChallengerEntry | RemovalEntry) -> "Shadow":
        """Return it with one more challenger, or one less."""
        if isinstance(entry, RemovalEntry):
            return replace(self, challengers={k: one for k, one in self.challengers.items() if k != entry.name})
        model = restore(entry.name, parse_model(entry.name, entry.document))
        added = Challenger(model, entry.measure, version, self.begun + 1)
        known = self.known if entry.name in self.known else (*self.known, entry.name)
        return replace(self, challengers={**self.challengers, entry.name: added}, known=known, begun=self.begun + 1)

    def better(self, error: float) -> str | None:
        """Return the name of the challenger that is shown to be better, the one with most evidence; None if none is."""
        shown = [(one.compared.log_evidence, name) for name, one in self.challengers.items() if one.is_better(error)]
        return max(shown)[1] if shown else None

    def as_plain(self) -> dict[str, Any]:
        """Return it as JSON keeps it to the bit."""
        return {
            "is_fixed": self.is_fixed,
            "known": list(self.known),
            "begun": self.begun,
            "promotion": None if self.promotion is None else list(self.promotion),
            "challengers": [
                {
                    "name": name,
                    "model": model_text(one.model.as_document()),
                    "measure": one.measure,
                    "since": one.since,
                    "number": one.number,
                    "compared": one.compared.as_plain(),
                    "refused": one.refused,
                    "refusal": one.refusal,
                }
                for name, one in self.challengers.items()
            ],
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Shadow":
        """Return what `as_plain` was called on."""
        found = {
            one["name"]: Challenger(
                restore(one["name"], parse_model(one["name"], one["model"])),
                one["measure"],
                one["since"],
                one["number"],
                RunningDifference.from_plain(one["compared"]),
                one["refused"],
                one["refusal"],
            )
            for one in plain["challengers"]
        }
        last = plain["promotion"]
        return cls(found, plain["is_fixed"], tuple(plain["known"]), plain["begun"], last and Promotion(*last))


def check_measure(name: str) -> str:
    """Return the name of a measure that differences can be taken of: from 0 to 1, and defined for all grades."""
    measure = parse(name)
    if isinstance(measure, ERR):
        raise ValueError("measure must be defined for all grades, such as ndcg@10, ap or rr, got err")
    if measure.ties == "random":  # whose value would depend on how answers come in blocks
        raise ValueError(f"measure must not be random, got {name}")
    return str(measure)


def promoted(current: "Current", row: Row, entry: PromotionEntry) -> "Current":
    """Return the model after a challenger has taken the place of the one that ranks."""
    one = current.shadow.challengers.get(entry.name)
    if one is None:
        raise ValueError(f"entry {row.sequence} promotes {entry.name!r}, which is no challenger")
    shadow = current.shadow.restarted(row.sequence, without=entry.name)
    shadow = replace(shadow, promotion=Promotion(row.sequence, entry.name, entry.error))
    state, names, n_features = one.model.model, current.names, current.n_features
    if state.has_begun:
        names = state.feature_names or (names if state.n_inputs == n_features else None)
        n_features = state.n_inputs
    changed: dict[str, Any] = {"version": row.sequence, "link": row.link, "shadow": shadow}
    return replace(current, model=one.model, names=names, n_features=n_features, **changed)


def unfit(current: "Current", n_features: int, names: tuple[str, ...] | None) -> str:
    """Return why a model that stays as it is could never rank these features; empty if it can, or will learn."""
    if current.shadow.is_fixed:
        try:
            current.model.ready_model(n_features, names)
        except ValueError as error:
            return str(error)
    return ""


def begun(model: Learner, n_features: int, names: tuple[str, ...] | None) -> Learner:
    """Return a model that stays as it is, with the weights of these features found; as it is if they do not fit."""
    try:
        ready = model.ready_model(n_features, names)
    except ValueError:
        return model
    return model.with_model(ready)


def after_answers(current: "Current", logged: Sequence[tuple[Row, AnswerEntry]]) -> "Current":
    """Return what follows from answers: each is ranked and measured by all models, then learned from.

    Answers are learned as blocks, which is faster, and the same to the bit as one after the other.
    """
    shadow, entries = current.shadow, [entry for _, entry in logged]
    measures = {one.measure: parse(one.measure) for one in shadow.challengers.values()}
    given = _Answers(entries, [row.sequence for row, _ in logged], current.names)
    counted = {one: given.counted(one) for one in measures.values()}
    mine = _round(current.model, given, list(measures.values()), learns=not shadow.is_fixed)
    challengers = {}
    for name, one in shadow.challengers.items():
        measure = measures[one.measure]
        its = _round(one.model, given, [measure], learns=True)
        compared = one.compared
        for first, second, counts in zip(mine.values[measure], its.values[measure], counted[measure], strict=True):
            if counts:
                compared = compared.after(_as_value(first), _as_value(second))
        challengers[name] = replace(
            one,
            model=its.model,
            compared=compared,
            refused=one.refused + its.refused,
            refusal=its.refusal or one.refusal,
        )
    last, _ = logged[-1]
    return replace(
        current,
        model=mine.model,
        version=last.sequence,
        link=last.link,
        answers=current.answers + len(logged),
        refused=current.refused + mine.refused,
        refusal=mine.refusal or current.refusal,
        shadow=replace(shadow, challengers=challengers),
    )


class _Answers(NamedTuple):
    """Answers, the numbers of their entries, and the names of their features."""

    entries: list[AnswerEntry]
    numbers: list[int]
    names: tuple[str, ...] | None

    def one(self, i: int) -> "_Answers":
        return _Answers([self.entries[i]], [self.numbers[i]], self.names)

    def features(self, model: Learner) -> tuple[Floats, tuple[str, ...] | None]:
        """Return all features as a model takes them, and their names if it does not know them."""
        X = np.concatenate([one.X for one in self.entries])
        state, names = model.model, self.names
        if not state.has_begun:
            return X, names
        known = state.feature_names
        if names is not None and known is not None and known != names:
            if set(known) != set(names):
                raise ValueError("it has other features")
            X = X[:, [names.index(name) for name in known]]
        return X, None

    def stream(self, model: Learner) -> QueryStream:
        """Return them as a model takes them."""
        X, names = self.features(model)
        weights = np.array([one.weight for one in self.entries])
        return QueryStream.from_arrays(
            X,
            np.concatenate([one.relevance for one in self.entries]),
            group=[len(one.documents) for one in self.entries],
            weights=None if (weights == 1.0).all() else weights,
            feature_names=names,
            missing="keep",
        )

    def counted(self, measure: Measure) -> list[bool]:
        """Tell for which answers a measure is defined, by their grades alone; others it leaves out."""
        relevance = np.concatenate([one.relevance for one in self.entries])
        offsets = np.cumsum([0, *(len(one.documents) for one in self.entries)])
        return [not math.isnan(value) for value in measure.per_query(relevance, relevance, offsets).tolist()]


class _Round(NamedTuple):
    """A model after answers, the values of its rankings before them, and what it could not learn from."""

    model: Learner
    values: dict[Measure, list[float]]
    refused: int = 0
    refusal: str = ""


def _round(model: Learner, answers: _Answers, measures: list[Measure], *, learns: bool) -> _Round:
    if not learns and not measures:
        return _Round(model, {})
    if model.model.has_begun and len(answers.entries) > 1:
        try:
            return _block(model, answers, measures, learns=learns)
        except _REFUSALS:
            pass
    values: dict[Measure, list[float]] = {one: [] for one in measures}
    refused, refusal = 0, ""
    for i, number in enumerate(answers.numbers):
        answer = answers.one(i)
        try:
            if model.model.has_begun:
                model, found, *_ = _block(model, answer, measures, learns=learns)
            else:
                found = _as_ranked(model, answer, measures)
                model = _first(model, answer) if learns else model
        except _REFUSALS as error:
            refused, refusal = refused + learns, f"entry {number}: {error}" if learns else refusal
            found = _as_ranked(model, answer, measures)
        for one in measures:
            values[one] += found[one]
    return _Round(model, values, refused, refusal)


def _block(model: Learner, answers: _Answers, measures: list[Measure], *, learns: bool) -> _Round:
    stream = answers.stream(model)
    if not learns:
        return _Round(model, _measured(model.scores(stream), stream, measures))
    after, trace = model.learn_from(model.model, stream, measures)
    return _Round(model.with_model(after), {one: trace.values(one).tolist() for one in measures})


def _as_ranked(model: Learner, answer: _Answers, measures: list[Measure]) -> dict[Measure, list[float]]:
    """Return the values of a model as it is; 0 if it cannot rank the documents, as it would be of no use then."""
    try:
        stream = answer.stream(model)
        return _measured(model.scores(stream), stream, measures)
    except _REFUSALS:
        return {one: [0.0] for one in measures}


def _as_value(value: float) -> float:
    """Return a value to compare: 0 for a ranking by scores that are not numbers."""
    return 0.0 if math.isnan(value) else value


def _measured(scores: Floats, stream: QueryStream, measures: list[Measure]) -> dict[Measure, list[float]]:
    return {one: one.per_query(scores, stream.relevance, stream.offsets).tolist() for one in measures}


def _first(model: Learner, answer: _Answers) -> Learner:
    """Return a model after the first answer of all, which tells it the features."""
    made, (entry,), (X, names) = model.with_model(model.model), answer.entries, answer.features(model)
    made.learn_one(X if names is None else Columns(X, names), entry.relevance, entry.weight)
    return made
