"""Ranking and learning answers of the log: as blocks if it can, one by one if it must, the same to the bit."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from perceptrank.clicks.policies import KINDS, NoExploration, policy_kind
from perceptrank.kernels.arrays import Floats
from perceptrank.learners.kernel.perceptron import KernelPerceptron
from perceptrank.learners.learner import Learner
from perceptrank.learners.learning import begin, policies_of, ready_model, takes_clicks
from perceptrank.measures import Measure, ReciprocalRank
from perceptrank.measures.of_clicks import ClickMeasure
from perceptrank.serve.errors import InvalidRequestError
from perceptrank.serve.log.records import AnswerEntry, ImpressionEntry, as_numbers
from perceptrank.serve.settings import Settings
from perceptrank.serve.shadow.evidence import click_values, duel_weight
from perceptrank.stream.memory import RoomError, limited_room
from perceptrank.stream.query_stream import QueryStream

NAIVE = ReciprocalRank()  # of clicks as if they were grades: what a ranker gets for agreeing with what was shown
MODEL_BYTES = 2**29  # of a model with a copy; a constant, so that a replay refuses what the service has refused


class Columns:
    """Features with the names of their columns, as data frames have them."""

    def __init__(self, X: Floats, names: tuple[str, ...]) -> None:
        self.columns, self._X = names, X

    def __array__(self, dtype: Any = None, copy: Any = None) -> Floats:
        return self._X


def columns_for(learner: Learner, X: Floats, names: tuple[str, ...] | None) -> tuple[Floats, tuple[str, ...] | None]:
    """Return features as a model takes them, and their names if it does not know them."""
    if not learner.model.has_begun:
        return X, names
    known = learner.model.feature_names
    if names is not None and known is not None and known != names:
        if set(known) != set(names):
            raise ValueError("it has other features")
        X = X[:, [names.index(name) for name in known]]
    return X, None


class Answers(NamedTuple):
    """Answers, all with grades or all with clicks; the numbers of their entries, and the names of their features."""

    entries: Sequence[AnswerEntry | ImpressionEntry]
    numbers: list[int]
    names: tuple[str, ...] | None

    def only(self, i: int) -> "Answers":
        """Return one of them."""
        return Answers([self.entries[i]], [self.numbers[i]], self.names)

    @property
    def are_clicks(self) -> bool:
        """True if they have clicks."""
        return isinstance(self.entries[0], ImpressionEntry)

    def that_teach(self, learner: Learner) -> "Answers":
        """Return those that a learner learns from: grades, or clicks on lists of a policy that it takes."""
        if takes_clicks(learner) != self.are_clicks:
            return Answers([], [], self.names)
        if not self.are_clicks or not (usable := policies_of(learner)):
            return self
        kinds = [KINDS[policy_kind(entry.policy)[0]] for entry in self.entries if isinstance(entry, ImpressionEntry)]
        rows = [i for i, kind in enumerate(kinds) if kind in usable]
        return Answers([self.entries[i] for i in rows], [self.numbers[i] for i in rows], self.names)

    def features(self, learner: Learner) -> tuple[Floats, tuple[str, ...] | None]:
        """Return all features as a model takes them, and their names if it does not know them."""
        if len({entry.n_features for entry in self.entries}) > 1:
            raise ValueError("answers of different features")
        X = as_numbers(b"".join([entry.features for entry in self.entries]))
        return columns_for(learner, X.reshape(sum(len(entry.documents) for entry in self.entries), -1), self.names)

    def stream(self, learner: Learner) -> QueryStream:
        """Return them as a model takes them."""
        X, names = self.features(learner)
        group, columns = [len(entry.documents) for entry in self.entries], dict[str, Any]()
        graded = [entry for entry in self.entries if isinstance(entry, AnswerEntry)]
        shown = [entry for entry in self.entries if isinstance(entry, ImpressionEntry)]
        if graded:
            weights = np.array([entry.weight for entry in graded])
            columns = {"query_weights": None if (weights == 1.0).all() else weights}
            columns["relevance"] = as_numbers(b"".join([entry.grades for entry in graded]))
        else:
            parts = [entry.columns() for entry in shown]
            columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            columns["columns"] = {"policy": [entry.policy for entry in shown]}
        return QueryStream.from_arrays(X, group=group, feature_names=names, missing="keep", **columns)

    def weights(self, name: str, since: int, measure: Measure, *values: list[float]) -> list[float]:
        """Return how much each answer counts in the comparison with a challenger, 0 where the measure has no value."""
        if self.are_clicks:
            known = [not any(map(math.isnan, own)) for own in zip(*values, strict=True)]
            weights = [duel_weight(measure, cast(ImpressionEntry, entry), name, since) for entry in self.entries]
            return [weight * is_known for weight, is_known in zip(weights, known, strict=True)]
        relevance = np.concatenate([entry.relevance for entry in self.entries if isinstance(entry, AnswerEntry)])
        offsets = np.cumsum([0, *(len(entry.documents) for entry in self.entries)])
        return [float(not math.isnan(value)) for value in measure.per_query(relevance, relevance, offsets).tolist()]


def explores(learner: Learner, settings: Settings) -> bool:
    """Tell whether lists that a learner ranks are explored: its own exploration is that of click learners."""
    return takes_clicks(learner) if settings.explore == "own" else settings.explore != NoExploration.name


class Learned(NamedTuple):
    """A learner after answers, the values of its rankings before them, and what it could not learn from."""

    learner: Learner
    values: dict[Measure, list[float]]
    refused: int = 0
    refusal: str = ""


def learn_answers(
    learner: Learner, answers: Answers, measures: list[Measure], *, learns: bool = True, ranks: bool = False
) -> Learned:
    """Rank and measure each answer, then learn from it; an answer that a learner refuses leaves it as it was.

    A refusal is a `ValueError`. It depends on the answer and the learner alone, so that a replay has it too. `ranks`
    says that the learner's lists are those that were shown.
    """
    if not learns and not measures:
        return Learned(learner, {})
    with limited_room(MODEL_BYTES):
        return _learn_answers(learner, answers, measures, learns=learns, ranks=ranks)


def _learn_answers(
    learner: Learner, answers: Answers, measures: list[Measure], *, learns: bool, ranks: bool
) -> Learned:
    teaching, is_learner = answers.that_teach(learner), learns
    if not measures:
        answers = teaching
    if not answers.entries:
        return Learned(learner, {})
    # What clicks say of each ranking must be said before the next one is learned, however answers come in blocks.
    at_once = not measures or not answers.are_clicks
    if learner.model.has_begun and len(answers.entries) > 1 and at_once:
        try:
            return _learn_block(learner, answers, measures, learns=learns and bool(teaching.entries))
        except ValueError:
            pass  # one by one, to find the answer that is refused
    values: dict[Measure, list[float]] = {measure: [] for measure in measures}
    refused, refusal = 0, ""
    for i, number in enumerate(answers.numbers):
        answer = answers.only(i)
        learns = is_learner and bool(answer.that_teach(learner).entries)
        try:
            if measures and learner.model.has_begun and not answers.are_clicks:
                learner, measured, *_ = _learn_block(learner, answer, measures, learns=learns)
            else:
                measured = _rank(learner, answer, measures, ranks=ranks)
                learner = _learn_one(learner, answer) if learns else learner
        except ValueError as error:
            refused, refusal = refused + learns, f"entry {number}: {error}" if learns else refusal
            measured = _rank(learner, answer, measures, ranks=ranks)
        for measure in measures:
            values[measure] += measured[measure]
    return Learned(learner, values, refused, refusal)


def _learn_block(learner: Learner, answers: Answers, measures: list[Measure], *, learns: bool) -> Learned:
    stream = answers.stream(learner)
    if not learns:
        return Learned(learner, _measure(learner.scores(stream), stream, measures))
    _check_lengths(learner, answers)
    after = learner.with_model(learner.model)
    trace = after.learn(stream, measures)
    return Learned(after, {measure: trace.values(measure).tolist() for measure in measures})


def _learn_one(learner: Learner, answer: Answers) -> Learner:
    _check_lengths(learner, answer)
    after, (entry,) = learner.with_model(learner.model), answer.entries
    if isinstance(entry, ImpressionEntry):
        after.learn(answer.stream(learner), [])
    else:
        X, names = answer.features(learner)
        after.learn_one(X if names is None else Columns(X, names), entry.relevance, entry.weight)
    return after


def _check_lengths(learner: Learner, answers: Answers) -> None:
    """Raise if a learner would be busy for so long with one of the answers that all others wait for it."""
    longest, n_documents = _longest_query(learner), max(len(entry.documents) for entry in answers.entries)
    if n_documents > longest:
        raise ValueError(
            f"{learner.name} learns from queries of at most {longest:,} documents here, got {n_documents:,}"
        )


def _longest_query(learner: Learner) -> float:
    own = math.inf if learner.longest_query is None else learner.longest_query
    return min([own, *map(_longest_query, learner.model.learners)])


def check_bounded(what: str, learner: Learner) -> None:
    """Raise if a learner would keep more and more of the answers."""
    if _grows(learner):
        raise InvalidRequestError(
            f"{what} must not grow with every answer, got {learner.name} without a budget",
            'give it one, as KernelPerceptron(budget=2000, policy="merge") has, or let it rank without learning',
        )


def _grows(learner: Learner) -> bool:
    own = isinstance(learner, KernelPerceptron) and learner.grows
    return own or any(map(_grows, learner.model.learners))


def _rank(learner: Learner, answer: Answers, measures: list[Measure], *, ranks: bool) -> dict[Measure, list[float]]:
    """Return the values of a learner as it is; 0 if it cannot rank the documents, as it would be of no use then."""
    if not measures:
        return {}
    try:
        stream = answer.stream(learner)
        return _measure(learner.scores(stream), stream, measures, ranks=ranks)
    except ValueError:
        return {measure: [0.0] for measure in measures}


def _measure(
    scores: Floats, stream: QueryStream, measures: list[Measure], *, ranks: bool = False
) -> dict[Measure, list[float]]:
    grades = stream.relevance if stream.clicked is None else stream.clicked  # clicks are grades for NAIVE alone
    return {
        measure: click_values(measure, stream, scores, ranks=ranks)
        if isinstance(measure, ClickMeasure)
        else measure.per_query(scores, grades, stream.offsets).tolist()
        for measure in measures
    }


def find_weights(learner: Learner, n_features: int, names: tuple[str, ...] | None) -> Learner:
    """Return a fixed learner with its weights for these features; raise `ValueError` if it has none."""
    with limited_room(MODEL_BYTES):
        return learner.with_model(ready_model(learner, n_features, names))


def check_width(learner: Learner, n_features: int, names: tuple[str, ...] | None) -> None:
    """Raise `RoomError` if a model of `n_features` features would be too large; one that has begun is never checked.

    Allocates the model, so that a lack of memory shows before an answer is acknowledged.
    """
    if learner.model.has_begun:
        return
    model = learner.model.copy()
    model.feature_names = names
    try:
        with limited_room(MODEL_BYTES):
            begin(learner, model, n_features)
    except RoomError:
        raise
    except ValueError:
        pass  # features that it refuses, answer by answer
