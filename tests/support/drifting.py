"""What tests of bounds against a moving ranker need: learners that forget, played round by round."""

import numpy as np

import perceptrank as pr

# Learners, the relative margin that growth depends on if they go by places, and the largest number of level gaps.
LEARNERS = {
    "places": (lambda **start: pr.ListwisePerceptron(average=False, transforms=None, **start), 1.0),
    "places@3": (
        lambda **start: pr.ListwisePerceptron("ndcg@3", relative_margin=3, average=False, transforms=None, **start),
        3.0,
    ),
    "uniform": (
        lambda **start: pr.ListwisePerceptron(
            "ap", violators="uniform", learning_rate=0.3, average=False, transforms=None, **start
        ),
        None,
    ),
    "no margin": (
        lambda **start: pr.ListwisePerceptron(
            violators="uniform", relative_margin=0, average=False, transforms=None, **start
        ),
        None,
    ),
    "slam": (lambda **start: pr.SlamPerceptron("ndcg", learning_rate=0.2, margin=0.7, **start), None),
    "minimax": (lambda **start: pr.MinimaxPerceptron("ndcg", learning_rate=2.0, **start), None),
}


def play(name, half_life, stream, rankers, **start):
    """Let a learner that forgets learn a stream; return S, its losses, largest norm per rate, and the bound's parts.

    The surrogate of a query is that of its own ranker, counted if there is an update; with places, times its mass.
    """
    make, relative = LEARNERS[name]
    inner = make(**start)
    learner = pr.Fading(inner, half_life=half_life)
    measure, theorem = getattr(inner, "measure", "ndcg"), inner.theorem
    weights = np.ones(len(stream)) if stream.query_weights is None else stream.query_weights
    S = lost = L = largest = 0.0
    for t in range(len(stream)):
        trace = learner.learn(stream[t : t + 1], measure)
        S, lost = S + trace.masses[0], lost + trace.cumulative_loss(measure)[-1]
        largest = max(largest, float(np.linalg.norm(learner.weights)) / inner.learning_rate)
        if trace.masses[0] > 0:
            alone = stream[t : t + 1].with_query_weights(None)
            f = pr.theory.cumulative_surrogate(rankers[t], alone, measure, surrogate=theorem.surrogate)
            L += f * (trace.masses[0] if relative is not None else weights[t])
    D, c = pr.theory.diameter(stream, measure) if S > 0 else 0.0, float(weights.max())
    C = theorem.constant(diameter=D, largest_weight=c)
    gaps = max(len(np.unique(query.relevance)) for query in stream) - 1
    growth = C if relative is None else (1 + 2 * relative * gaps) * c * D**2
    return S, lost, largest, C, growth, c, L


def path_of(rankers):
    return float(np.linalg.norm(np.diff(rankers, axis=0), axis=1).sum())
