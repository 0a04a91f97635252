"""The adversary of simplices, who takes from deterministic learners what no ranker, or one with losses, would lose.

The documents of a query are the corners of a regular simplex in dimensions of its own, and the one that is ranked last
is the relevant one. A ranker u that gives it the lead b over all others, in each of T rounds, has the norm b √T / h, h
being the height of the simplex, and the surrogate T (1 - b). Some b makes these at most U and L if and only if T ≤ L +
K/2 + √(K L + K²/4), K = h² U². For two documents that is what Theorem B allows.
"""

import numpy as np

from perceptrank.kernels.arrays import Features
from perceptrank.measures import MeasureLike, parse
from perceptrank.stream.validation import ParameterError, check_positive, check_positive_whole
from perceptrank.theory.adversary import Game, Opponent, check_memory, play_rounds
from perceptrank.theory.theorem import AnyComparator, Comparator, largest_lost, norm_and_loss


def simplex_rounds(
    radius: float, n_documents: int = 2, *, margin: float | None = None, comparator: AnyComparator | None = None
) -> int:
    """Return how many rounds of `play_simplex` any deterministic learner loses.

    Parameters
    ----------
    radius : float > 0
        Norm R of every document.
    n_documents : int
        Number of documents of a query, at least 2.
    margin : float > 0, optional
        Margin of the stream; give this or `comparator`.
    comparator : Comparator or (U, L), optional
        Norm of a fixed ranker, and its cumulative surrogate.

    Examples
    --------
    >>> simplex_rounds(1.0, margin=0.1), simplex_rounds(1.0, comparator=(10.0, 25.0))
    (400, 448)
    """
    height = _height(radius, n_documents)
    norm, loss = norm_and_loss(margin, comparator)
    most = largest_lost(float(height * norm) ** 2, 0.0, float(loss)) * (1 + 1e-12)
    if not 1 <= most < np.inf:
        wanted = f"margin {margin}" if comparator is None else f"comparator of norm {norm:g} and loss {loss:g}"
        raise ValueError(f"with radius {radius} and {wanted}, there is no round to play, or no end to them")
    return int(most)


def play_simplex(
    ranker: Opponent,
    *,
    radius: float = 1.0,
    margin: float | None = None,
    comparator: AnyComparator | None = None,
    n_documents: int = 2,
    rounds: int | None = None,
    measure: MeasureLike = "ndcg",
) -> Game:
    """Play the game of the simplex: as many rounds as some ranker of norm U and surrogate L allows, each lost in full.

    No learner can avoid this loss; for two documents, some never lose more. The other parameters are those of
    `simplex_rounds`.

    Parameters
    ----------
    ranker : learner
        It must accept documents with n_documents - 1 features for each round.
    rounds : int, optional
        A smaller number of rounds.
    measure : str or Measure
        "ndcg" or "ap", with or without a cut-off; the loss is 1 minus this.

    Examples
    --------
    >>> import perceptrank as pr
    >>> learner = pr.MinimaxPerceptron("ap")
    >>> game = play_simplex(learner, comparator=(1.0, 5.0), measure="ap")
    >>> len(game.stream), float(game.trace.losses("ap").sum())
    (11, 5.5)
    >>> round(learner.guarantee(radius=1.0, comparator=(1.0, 5.0), n_documents=2), 3)  # (5 + 2 + √24) / 2
    5.949
    """
    from scipy.linalg import helmert

    m, recorded = check_positive_whole("n_documents", n_documents, least=2), parse(measure)
    most = simplex_rounds(radius, m, margin=margin, comparator=comparator)
    rounds = most if rounds is None else check_positive_whole("rounds", rounds)
    if rounds > most:
        raise ParameterError("rounds", f"must be at most {most} for this radius and ranker", rounds)
    check_memory(rounds, m, rounds * (m - 1), "choose a larger margin, a smaller comparator or fewer rounds")
    corners: Features = helmert(m).T * np.sqrt(m / (m - 1))
    X: Features = np.zeros((rounds, m, rounds, m - 1))
    for t in range(rounds):
        X[t, :, t] = radius * corners
    trace, stream = play_rounds(ranker, X.reshape(rounds, m, -1), recorded, lambda order: int(order[-1]))
    separator = corners[stream.relevance.reshape(rounds, m).argmax(axis=1)].ravel() / np.sqrt(rounds)
    best, loss = float(_height(radius, m) / np.sqrt(rounds)), float(norm_and_loss(margin, comparator)[1])
    lead = max(0.0, 1 - loss / rounds)
    against = Comparator(lead / best, rounds * (1 - lead), separator * (lead / best))
    least = 1 - recorded(-np.arange(float(m)), np.arange(m) == m - 1)
    return Game(trace, stream, separator, best, rounds * least, comparator=against)


def _height(radius: float, n_documents: int) -> float:
    """Return the height of a regular simplex whose corners are that far from its centre."""
    m = check_positive_whole("n_documents", n_documents, least=2)
    return check_positive("radius", radius) * m / (m - 1)
