"""The adversary of the lower bound, which grades each query after it has seen the learner's ranking.

Query t has the documents R e_{t+1}, −R e_{t+1}, and R e_1 as often as wanted. If the first one is ranked on top, the
second one is relevant, else the first one. A relevant document is never on top, so every round costs at least 1/2 in
1 − AP and 1 − 1/log2(3) in 1 − NDCG. Yet the stream is separable: w_1 = −γ/(2R), w_{t+1} = ±γ/(2R) has margin γ, and
norm at most 1 for up to 4R²/γ² − 1 rounds.

The version "exact" is one for learners whose weights are combinations of documents that they have seen. Query t has
m − 1 documents −R e_t, and then R e_t, the only relevant one. To such a learner all documents of a new direction are
alike, and in the worst order of ties, which the order of the input is, the relevant one comes last: 1 − 1/m is lost in
AP, 1 − 1/log2(1 + m) in NDCG, in each of 4R²/γ² rounds. That is what Theorem B allows, to the last digit.
"""

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.measures import MeasureLike, parse
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import ParameterError, check_choice, check_positive, check_positive_whole

_MOST_BYTES = 2**32


class Opponent(Protocol):
    """The interface that the adversary needs: ranking, and learning one query."""

    def rank(self, X: npt.ArrayLike) -> Ints:
        """Return the row numbers of X, best first."""
        ...

    def learn_one(self, X: npt.ArrayLike, relevance: npt.ArrayLike) -> object:
        """Learn from one query."""
        ...


class Game(NamedTuple):
    """Result of a lower-bound game.

    Attributes
    ----------
    trace : Trace
        The measure of each round's ranking; masses are 1 in rounds with an update.
    stream : QueryStream
        The queries with the grades that the adversary gave.
    separator : array
        Unit vector that ranks all queries correctly.
    margin : float
        Its margin, at least the requested one.
    lower_bound : float
        The loss that any learner has at least; in the version "exact", one in the span of what it saw.
    """

    trace: Trace
    stream: QueryStream
    separator: "Floats"
    margin: float
    lower_bound: float


def n_rounds(radius: float, margin: float, version: str = "sharp") -> int:
    """Return the largest number of rounds with a given margin: ⌊4R²/γ²⌋ − 1, the paper's ⌊R²/γ²⌋ − 1, or ⌊4R²/γ²⌋.

    Parameters
    ----------
    radius : float > 0
        Norm R of every document.
    margin : float > 0
        Margin γ of the stream.
    version : "sharp", "paper", or "exact"
        The first formula, the second or the third.

    Examples
    --------
    >>> n_rounds(1.0, 0.1), n_rounds(1.0, 0.1, "paper")
    (399, 99)
    """
    check_choice("version", version, ("sharp", "paper", "exact"))
    ratio = check_positive("radius", radius) / check_positive("margin", margin)
    squared = (1 if version == "paper" else 4) * ratio**2
    # The ratio of, say, 1.0 and 0.1 may fall short of the whole number it stands for.
    rounds = int(np.floor(squared * (1 + 1e-12))) - (version != "exact")
    if rounds < 1:
        raise ValueError(f"margin {margin} is too large for radius {radius}: there is no round to play")
    return rounds


def play(
    ranker: Opponent,
    *,
    radius: float = 1.0,
    margin: float = 0.1,
    n_documents: int = 3,
    version: str = "sharp",
    rounds: int | None = None,
    measure: MeasureLike = "ndcg",
) -> Game:
    """Play the lower-bound game against a ranker, using only its `rank` and `learn_one`.

    Parameters
    ----------
    ranker : learner
        It must accept documents with one feature more than there are rounds (as many, in the version "exact").
    radius, margin : float
        Norm R of every document, and margin γ of the stream.
    n_documents : int
        Number of documents of a query, at least 2.
    version : "sharp", "paper", or "exact"
        Number of rounds, see `n_rounds`; "exact" is the game against learners in the span of what they saw.
    rounds : int, optional
        A smaller number of rounds.
    measure : str or Measure
        "ndcg" or "ap", with or without a cut-off; the loss is 1 minus this.

    Examples
    --------
    >>> import perceptrank as pr
    >>> game = play(pr.MinimaxPerceptron(), margin=0.5)
    >>> len(game.stream), round(game.lower_bound, 2), bool((1 - game.trace.values("ndcg") > 0.36).all())
    (15, 5.54, True)
    """
    most = n_rounds(radius, margin, version)
    rounds = most if rounds is None else check_positive_whole("rounds", rounds)
    if rounds > most:
        raise ParameterError("rounds", f"must be at most {most} for radius {radius} and margin {margin}", rounds)
    if check_positive_whole("n_documents", n_documents) < 2:
        raise ParameterError("n_documents", "must be at least 2", n_documents)
    recorded = parse(measure)
    exact = version == "exact"
    n_features = rounds if exact else rounds + 1
    if 8 * n_documents * rounds * n_features > _MOST_BYTES:
        raise ValueError(
            f"{rounds} rounds need {n_features} features, {8e-9 * n_documents * rounds * n_features:.0f} GB of memory; "
            "choose a larger margin or fewer rounds"
        )
    X: Features = np.zeros((rounds, n_documents, n_features))
    relevance = np.zeros((rounds, n_documents))
    scores = np.empty((rounds, n_documents))
    masses = np.zeros(rounds)
    separator = np.full(n_features, margin / (2 * radius) * (1 if exact else -1))
    for t in range(rounds):
        if exact:
            X[t, :-1, t], X[t, -1, t] = -radius, radius
        else:
            X[t, 0, t + 1], X[t, 1, t + 1], X[t, 2:, 0] = radius, -radius, radius
        order = np.asarray(ranker.rank(X[t]))
        if order.dtype.kind not in "iu" or not np.array_equal(np.sort(order), np.arange(n_documents)):
            raise ValueError(f"rank must return each of the {n_documents} row numbers once, got {order!r}")
        scores[t, order] = -np.arange(n_documents)
        chosen = n_documents - 1 if exact else 1 if order[0] == 0 else 0
        relevance[t, chosen] = 1
        if not exact:
            separator[t + 1] *= 1 if chosen == 1 else -1
        masses[t] = bool(ranker.learn_one(X[t], relevance[t]))
    stream = QueryStream.from_arrays(X.reshape(-1, n_features), relevance.ravel(), group=np.full(rounds, n_documents))
    values = recorded.per_query(scores.ravel(), stream.relevance, stream.offsets, 0)
    norm = float(np.linalg.norm(separator))
    last = n_documents if exact else 2  # the best place that the relevant document can have
    least = 1 - recorded(-np.arange(float(last)), np.arange(last) == last - 1)
    return Game(Trace({recorded: values}, masses), stream, separator / norm, margin / norm, rounds * least)
