"""Adversaries, which choose grades or queries after they have seen the learner's rankings; docs/theory/ has the proofs.

The lower bound (`play`): query t has the documents R e_{t+1}, −R e_{t+1}, and R e_1 as often as wanted. If the first is
ranked on top, the second is relevant, else the first. The weights w_1 = −γ/(2R), w_{t+1} = ±γ/(2R) have margin γ.

The version "exact" is for learners whose weights are combinations of documents that they have seen. Query t has m − 1
documents −R e_t, and then R e_t, the only relevant one. Ties are broken by the order of the input, the worst order.

Budgets (`play_budget`): there are B + 1 queries, one for each direction: −R e_j and R e_j, the second of which is
relevant. A function of at most B stored documents ties the two of some direction, and that query is played.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.measures import Measure, MeasureLike, parse
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import ParameterError, check_choice, check_positive, check_positive_whole
from perceptrank.theory.theorem import Comparator

_MOST_BYTES = 2**32


class Opponent(Protocol):
    """The part of a learner that adversaries use."""

    def rank(self, X: npt.ArrayLike) -> Ints:
        """Return the row numbers of X, best first."""

    def learn_one(self, X: npt.ArrayLike, relevance: npt.ArrayLike) -> object:
        """Learn from one query."""


class Game(NamedTuple):
    """Result of a game against an adversary.

    Attributes
    ----------
    trace : Trace
        The measure of each round's ranking; masses are 1 in rounds with an update.
    stream : QueryStream
        The queries that were played.
    separator : array
        Unit vector that ranks all queries correctly.
    margin : float
        Its margin: at least the requested one, or 2R/√(B + 1) against a budget B.
    lower_bound : float
        The smallest loss of any learner that the game is for.
    is_beaten : bool
        True if the learner came to rank all queries of `play_budget` right, so that none was left to play.
    comparator : Comparator or None
        Of `play_simplex`, the ranker whose norm and surrogate are as small as was asked for.
    """

    trace: Trace
    stream: QueryStream
    separator: "Floats"
    margin: float
    lower_bound: float
    is_beaten: bool = False
    comparator: Comparator | None = None


def n_rounds(radius: float, margin: float, version: str = "sharp") -> int:
    """Return the largest number of rounds with a given margin: ⌊4R²/γ²⌋ − 1, the paper's ⌊R²/γ²⌋ − 1, or ⌊4R²/γ²⌋.

    Parameters
    ----------
    radius, margin : float > 0
        Norm R of every document, and margin γ of the stream.
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
    check_positive_whole("n_documents", n_documents, least=2)
    recorded = parse(measure)
    exact = version == "exact"
    n_features = rounds if exact else rounds + 1
    check_memory(rounds, n_documents, n_features, "choose a larger margin or fewer rounds")
    X: Features = np.zeros((rounds, n_documents, n_features))
    for t in range(rounds):
        if exact:
            X[t, :-1, t], X[t, -1, t] = -radius, radius
        else:
            X[t, 0, t + 1], X[t, 1, t + 1], X[t, 2:, 0] = radius, -radius, radius
    trace, stream = play_rounds(ranker, X, recorded, lambda order: n_documents - 1 if exact else int(order[0] == 0))
    separator = np.full(n_features, margin / (2 * radius))
    if not exact:
        is_second = stream.relevance[1::n_documents] > 0
        separator[0] *= -1
        separator[1:] *= np.where(is_second, -1, 1)
    norm = float(np.linalg.norm(separator))
    last = n_documents if exact else 2  # the best place that the relevant document can have
    least = 1 - recorded(-np.arange(float(last)), np.arange(last) == last - 1)
    return Game(trace, stream, separator / norm, margin / norm, rounds * least)


def play_rounds(
    ranker: Opponent, X: Features, measure: Measure, choose: Callable[[Ints], int]
) -> tuple[Trace, QueryStream]:
    """Play queries, rounds x documents x features; `choose` returns the relevant document of a ranking."""
    rounds, m, _ = X.shape
    relevance, scores, masses = np.zeros((rounds, m)), np.empty((rounds, m)), np.zeros(rounds)
    for t in range(rounds):
        order = np.asarray(ranker.rank(X[t]))
        if order.dtype.kind not in "iu" or not np.array_equal(np.sort(order), np.arange(m)):
            raise ValueError(f"rank must return each of the {m} row numbers once, got {order!r}")
        scores[t, order] = -np.arange(m)
        relevance[t, choose(order)] = 1
        masses[t] = bool(ranker.learn_one(X[t], relevance[t]))
    stream = QueryStream.from_arrays(X.reshape(rounds * m, -1), relevance.ravel(), group=np.full(rounds, m))
    values = measure.per_query(scores.ravel(), stream.relevance, stream.offsets, 0)
    return Trace({measure: values}, masses), stream


def play_budget(
    ranker: Opponent, budget: int, *, rounds: int | None = None, radius: float = 1.0, measure: MeasureLike = "ndcg"
) -> Game:
    """Play against a ranker whose function is made of at most `budget` documents, using its `rank` and `learn_one`.

    It loses every round, however many there are, though the unit vector of equal weights ranks all queries right.
    Rankers without a budget may learn to do so too, which ends the game. The other parameters are those of `play`.

    Parameters
    ----------
    ranker : learner
        It must accept documents with budget + 1 features, as they are.
    budget : int
        Number B of documents that it may store.
    rounds : int, optional
        Number of rounds, by default 4 (B + 1).

    Examples
    --------
    >>> import perceptrank as pr
    >>> learner = pr.KernelPerceptron(budget=6, rule="minimax", linear=0, average=False, transforms=None)
    >>> game = play_budget(learner, 6, rounds=50)
    >>> len(game.stream), bool((game.trace.losses("ndcg") > 0.36).all()), game.is_beaten
    (50, True, False)
    >>> game = play_budget(pr.MinimaxPerceptron(), 6, rounds=50)  # it has a weight for each direction
    >>> len(game.stream), game.is_beaten
    (7, True)
    """
    n = check_positive_whole("budget", budget) + 1
    rounds = 4 * n if rounds is None else check_positive_whole("rounds", rounds)
    check_positive("radius", radius)
    check_memory(rounds, 2, n, "choose a smaller budget or fewer rounds")
    recorded = parse(measure)
    grades = np.array([0.0, 1.0])  # of equal scores the first is ranked first, which is the worst order
    X, masses, last_played = np.zeros((rounds, 2, n)), [], np.full(n, -1)
    for t in range(rounds):
        for direction in np.argsort(last_played, kind="stable"):  # those that it may have forgotten first
            X[t] = 0.0
            X[t, :, direction] = -radius, radius
            if np.asarray(ranker.rank(X[t]))[0] == 0:
                break
        else:
            break
        last_played[direction] = t
        masses.append(float(bool(ranker.learn_one(X[t], grades))))
    played = len(masses)
    stream = QueryStream.from_arrays(X[:played].reshape(-1, n), np.tile(grades, played), group=np.full(played, 2))
    values = recorded.per_query(np.tile([1.0, 0.0], played), stream.relevance, stream.offsets, 0)
    trace, least = Trace({recorded: values}, np.array(masses)), 1 - recorded([0.0, 1.0], [1.0, 0.0])
    separator, margin = np.full(n, 1 / np.sqrt(n)), float(2 * radius / np.sqrt(n))
    return Game(trace, stream, separator, margin, rounds * least, is_beaten=played < rounds)


def check_memory(rounds: int, n_documents: int, n_features: int, advice: str) -> None:
    """Raise if the queries of a game are too large for memory."""
    n_bytes = 8 * rounds * n_documents * n_features
    if n_bytes > _MOST_BYTES:
        raise ValueError(f"{rounds} rounds need {n_features} features, {1e-9 * n_bytes:.0f} GB of memory; {advice}")
