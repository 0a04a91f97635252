"""The adversary of learners on a budget: documents that the learner does not remember.

There are B + 1 queries, one for each direction: -R e_j and R e_j, the second of which is relevant. The unit vector with
equal weights ranks all of them with margin 2 R / √(B + 1). A ranking function that is made of at most B stored
documents, by a kernel of distances or of inner products, gives the two documents of a direction the same score unless
one of them is stored. So there is always a query that the learner does not rank right, and the adversary plays it.
"""

from typing import NamedTuple

import numpy as np

from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Floats
from perceptrank.measures import MeasureLike, parse
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import check_positive, check_positive_whole
from perceptrank.theory.adversary import Opponent

_MOST_BYTES = 2**32


class BudgetGame(NamedTuple):
    """Result of a game against a budget.

    Attributes
    ----------
    trace : Trace
        The measure of each round's ranking; masses are 1 in rounds with an update.
    stream : QueryStream
        The queries that were played.
    separator : array
        Unit vector that ranks all queries correctly.
    margin : float
        Its margin, 2 R / √(B + 1).
    lower_bound : float
        The loss that any learner with at most B supports has in so many rounds.
    is_beaten : bool
        True if the learner got to rank all B + 1 queries right, so that the adversary had none left to play.
    """

    trace: Trace
    stream: QueryStream
    separator: "Floats"
    margin: float
    lower_bound: float
    is_beaten: bool


def play_budget(
    ranker: Opponent, budget: int, *, rounds: int | None = None, radius: float = 1.0, measure: MeasureLike = "ndcg"
) -> BudgetGame:
    """Play against a ranker whose function is made of at most `budget` documents, using its `rank` and `learn_one`.

    It loses every round, however many there are, though a ranker, of norm √(budget + 1) in units of 1 / D, ranks all
    queries with a margin of 1. Rankers without a budget may come to rank all of them right, which ends the game.

    Parameters
    ----------
    ranker : learner
        It must accept documents with budget + 1 features, as they are.
    budget : int
        Number B of documents that it may store.
    rounds : int, optional
        Number of rounds, by default 4 (B + 1).
    radius : float
        Norm R of every document.
    measure : str or Measure
        "ndcg" or "ap", with or without a cut-off; the loss is 1 minus this.

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
    if 8 * 2 * rounds * n > _MOST_BYTES:
        raise ValueError(
            f"{rounds} rounds of {n} features need {16e-9 * rounds * n:.0f} GB of memory; choose a smaller budget or "
            "fewer rounds"
        )
    recorded = parse(measure)
    grades = np.array([0.0, 1.0])  # of equal scores the first is ranked first, which is the worst order
    X, masses, last_played = np.zeros((rounds, 2, n)), [], np.full(n, -1)
    is_beaten = False
    for t in range(rounds):
        for direction in np.argsort(last_played, kind="stable"):  # those that it may have forgotten first
            X[t] = 0.0
            X[t, :, direction] = -radius, radius
            if np.asarray(ranker.rank(X[t]))[0] == 0:
                break
        else:
            is_beaten = True
            break
        last_played[direction] = t
        masses.append(float(bool(ranker.learn_one(X[t], grades))))
    played = len(masses)
    stream = QueryStream.from_arrays(X[:played].reshape(-1, n), np.tile(grades, played), group=np.full(played, 2))
    lost = np.tile([1.0, 0.0], played)  # scores of the rankings
    values = recorded.per_query(lost, stream.relevance, stream.offsets, 0)
    least = 1 - recorded([0.0, 1.0], [1.0, 0.0])
    return BudgetGame(
        Trace({recorded: values}, np.array(masses)),
        stream,
        np.full(n, 1 / np.sqrt(n)),
        float(2 * radius / np.sqrt(n)),
        rounds * least,
        is_beaten,
    )
