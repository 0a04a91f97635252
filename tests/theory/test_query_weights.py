"""The theorems with query weights: the same bounds for weighted losses, D² being times the largest weight."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import promises
from support.learners import at_weights
from support.strategies import examples, separable_streams, streams

import perceptrank as pr
from perceptrank.learners.model import is_mean_safe
from perceptrank.learners.tally import CURRENT_LOSS, LARGEST_WEIGHT, MEAN_LOSS, TALLY_LENGTH
from perceptrank.theory import Comparator, bounds

SLACK = 1 + 1e-9
LEARNERS = st.sampled_from(
    [
        lambda **more: pr.ListwisePerceptron(average=False, transforms=None, **more),
        lambda **more: pr.ListwisePerceptron("ndcg@3", average=False, transforms=None, relative_margin=3, **more),
        lambda **more: pr.ListwisePerceptron(
            "ap", violators="uniform", average=False, transforms=None, learning_rate=0.3, **more
        ),
        lambda **more: pr.ListwisePerceptron(
            "ndcg@3", violators="top", margin=0.5, average=False, transforms=None, **more
        ),
        lambda **more: pr.SlamPerceptron("ndcg", learning_rate=0.2, margin=0.7, **more),
        lambda **more: pr.MinimaxPerceptron("ndcg", learning_rate=2.0, **more),
        lambda **more: pr.CategoryRanking(learning_rate=0.5, **more),
    ]
)
SEEDS = st.integers(0, 10**6)
KINDS = st.sampled_from(["few", "any", "heavy"])


def weighted(stream, kind, seed):
    """Weights of a stream's queries: 0, 1 and 4; anything around 1; or one that outweighs all others."""
    rng = np.random.default_rng(seed)
    n = len(stream)
    if kind == "few":
        weights = rng.choice([0.0, 1.0, 4.0], size=n)
    elif kind == "any":
        weights = rng.lognormal(sigma=1.5, size=n)
    else:
        weights = np.where(np.arange(n) == rng.integers(n), 50.0, rng.random(n))
    assume(weights.any())
    return stream.with_query_weights(weights)


@examples(5)
@given(stream=streams(), make=LEARNERS, kind=KINDS, seed=SEEDS, length=st.sampled_from([0.1, 1.0, 10.0]))
def test_the_weighted_bound_against_every_ranker(stream, make, kind, seed, length):
    """Sum of c RML <= S <= L + K/2 + √(K L + K²/4), K = U² C, C = max c · factor D² + offset, L weighted as well."""
    stream, learner = weighted(stream, kind, seed), make()
    measure = getattr(learner, "measure", "ndcg")
    lost = learner.learn(stream, measure).cumulative_loss(measure)[-1]
    assume(learner.n_updates > 0)
    rng = np.random.default_rng(seed + 1)
    D, surrogate = pr.theory.diameter(stream, measure), learner.theorem.surrogate
    for u in (length * rng.normal(size=stream.n_features), length * learner.weights, np.zeros(stream.n_features)):
        loss = pr.theory.cumulative_surrogate(u, stream, measure, surrogate=surrogate)
        against = Comparator(float(np.linalg.norm(u)), loss, u, surrogate=surrogate)
        certificate = learner.certificate(comparator=against, diameter=D)
        S = certificate.mass
        assert certificate.holds, str(certificate)
        assert lost <= S * SLACK + 1e-9
        C = stream.query_weights.max() * learner.theorem.factor * D**2 + learner.theorem.offset
        K = against.norm**2 * C
        bound = loss + K / 2 + np.sqrt(K * loss + K**2 / 4)
        assert bound * SLACK + 1e-9 >= S
        used = stream.query_weights[stream.query_weights > 0].max()
        moved = learner.theorem.of_moved.bound(comparator=against, diameter=D, radius=D / 2, largest_weight=used)
        assert moved == pytest.approx(bound, rel=1e-9)
        promised = learner.guarantee(comparator=against, diameter=D, largest_weight=used)
        assert lost <= promised * SLACK + 1e-9
        assert promised <= moved * SLACK
        a_priori = next(one for one in certificate.promises if one.name == "a priori")
        assert a_priori.bound <= moved * SLACK


@examples(3)
@given(data=separable_streams(), make=LEARNERS, kind=KINDS, seed=SEEDS, start=st.sampled_from([0.0, 0.5, 20.0]))
def test_the_weighted_bound_on_separable_streams(data, make, kind, seed, start):
    """S <= C / margin² + 2 |w1| / (rate margin): Theorem S with weights; and the a posteriori forms."""
    stream = weighted(data.stream, kind, seed)
    direction = np.random.default_rng(seed).normal(size=stream.n_features)
    more = {"initial_weights": start * direction / np.linalg.norm(direction)} if start else {}
    learner = make(**more)
    measure = getattr(learner, "measure", "ndcg")
    lost = learner.learn(stream, measure).cumulative_loss(measure)[-1]
    D = pr.theory.diameter(stream, measure)
    certificate = learner.certificate(margin=data.margin, diameter=D)
    assert certificate.holds, str(certificate)
    C = stream.query_weights.max() * learner.theorem.factor * D**2 + learner.theorem.offset
    bound = C / data.margin**2 + 2 * start / (learner.learning_rate * data.margin)
    assert lost <= certificate.mass * SLACK + 1e-9
    assert certificate.mass <= bound * SLACK
    given = {"margin": data.margin, "diameter": D, "largest_weight": stream.query_weights.max()}
    moved = learner.theorem.of_moved.bound(start=start / learner.learning_rate, **given)
    assert moved == pytest.approx(bound, rel=1e-6)
    assert lost <= learner.guarantee(**given) * SLACK + 1e-9
    assert learner.guarantee(**given) <= moved * SLACK


@given(data=separable_streams(), factor=st.sampled_from([2.0**-9, 2.0**6]))
def test_bounds_and_sums_scale_with_the_weights(data, factor):
    """Equal weights are a matter of units: S, the losses and the bounds are all multiplied by them."""
    plain, scaled = pr.ListwisePerceptron(transforms=None), pr.ListwisePerceptron(transforms=None)
    plain.learn(data.stream)
    scaled.learn(data.stream.with_query_weights(np.full(len(data.stream), factor)))
    D = pr.theory.diameter(data.stream)
    one, other = (learner.certificate(margin=data.margin, diameter=D) for learner in (plain, scaled))
    assert (other.mass, other.mean_loss, other.used_loss) == (
        factor * one.mass,
        factor * one.mean_loss,
        factor * one.used_loss,
    )
    for before, after in zip(one.promises[:3], other.promises[:3], strict=True):
        assert after.bound == pytest.approx(factor * before.bound, rel=1e-9)
    promised = scaled.guarantee(margin=data.margin, diameter=D, largest_weight=factor)
    assert promised == pytest.approx(factor * plain.guarantee(margin=data.margin, diameter=D), rel=1e-9)


@examples(2)
@given(stream=streams(), kind=KINDS, seed=SEEDS, measure=st.sampled_from(["ndcg", "ndcg@3", "ap"]))
def test_weighted_surrogates_are_sums_over_queries(stream, kind, seed, measure):
    stream = weighted(stream, kind, seed)
    u = np.random.default_rng(seed).normal(size=stream.n_features)
    for surrogate in ("slam", "max-pair", "level-pair"):
        each = [
            query.weight
            * pr.theory.cumulative_surrogate(
                u, pr.QueryStream.from_arrays(query.X, query.relevance), measure, surrogate=surrogate
            )
            for query in stream
        ]
        found = pr.theory.cumulative_surrogate(u, stream, measure, surrogate=surrogate)
        np.testing.assert_allclose(found, sum(each), rtol=1e-9, atol=1e-12)


def test_comparators_of_weighted_streams_are_those_of_copies():
    stream = pr.separable(12, n_documents=5, n_features=3, seed=3).stream
    grades = np.where(np.arange(60) % 13 == 0, 1, stream.relevance)
    noisy = pr.QueryStream(stream.X, grades, stream.offsets)
    counts = np.arange(12) % 3
    by_weight = pr.theory.comparator(noisy.with_query_weights(counts), penalty=0.5)
    by_copies = pr.theory.comparator(noisy[np.repeat(np.arange(12), counts)], penalty=0.5)
    assert by_weight.loss + 0.5 * by_weight.norm**2 == pytest.approx(by_copies.loss + 0.5 * by_copies.norm**2, rel=3e-3)
    assert by_weight.loss < pr.theory.cumulative_surrogate(np.zeros(3), noisy.with_query_weights(counts))


@given(stream=streams(), kind=KINDS, seed=SEEDS)
def test_weighted_perceptron(stream, kind, seed):
    """Sum of c over mistakes <= L + R U sqrt(max c L) + max c R² U², L the weighted hinges of u on mistakes."""
    stream = weighted(stream, kind, seed)
    classifier, X = pr.Perceptron(), stream.X
    weights = np.repeat(stream.query_weights, np.diff(stream.offsets))
    labels = np.where(stream.relevance > 0, 1, -1)
    mistaken = np.array([classifier.learn_one(*one) for one in zip(X, labels, weights, strict=True)])
    u = np.random.default_rng(seed).normal(size=stream.n_features)
    L = (weights * np.maximum(0, 1 - labels * (X @ u)))[mistaken].sum()
    C = weights.max() * (X**2).sum(axis=1).max()
    S = weights[mistaken].sum()
    assert classifier.certificate(comparator=(np.linalg.norm(u), L)).mass == pytest.approx(S)
    assert L + np.linalg.norm(u) * np.sqrt(C * L) + u @ u * C >= S / SLACK - 1e-9
    certificate = classifier.certificate(comparator=(np.linalg.norm(u), L), radius=np.sqrt((X**2).sum(axis=1).max()))
    assert certificate.holds or not mistaken.any(), str(certificate)


@examples(2)
@given(data=separable_streams(), kind=KINDS, seed=SEEDS, violators=st.sampled_from(["places", "uniform", "top"]))
def test_weighted_safe_averaging(data, kind, seed, violators):
    stream = weighted(data.stream, kind, seed)
    learner = pr.ListwisePerceptron(violators=violators, transforms=None)
    lost = learner.learn(stream, "ndcg").cumulative_loss("ndcg")[-1]
    D = pr.theory.diameter(stream)
    certificate = learner.certificate(margin=data.margin, diameter=D)
    assert certificate.holds, str(certificate)
    assert certificate.used_loss == pytest.approx(lost, abs=1e-9)
    assert certificate.current_loss <= certificate.mass * SLACK + 1e-9
    assert lost <= learner.guarantee(margin=data.margin, diameter=D, largest_weight=stream.query_weights.max()) * SLACK


@examples(5)
@given(seed=SEEDS, n=st.integers(1, 80), kind=st.sampled_from(["turns", "random"]))
def test_theorem_h_with_weights(seed, n, kind):
    """Whatever the losses from 0 to 1 and the weights: min(3 current + 2 c, 3/2 mean + c), c the largest weight."""
    rng = np.random.default_rng(seed)
    weights = rng.choice([0.1, 1.0, 30.0], size=n) if seed % 2 else rng.lognormal(size=n)
    losses, tally, used = np.zeros(2), np.zeros(TALLY_LENGTH), 0.0
    for weight in weights:
        safe = is_mean_safe(tally)
        losses = np.array([float(safe), float(not safe)]) if kind == "turns" else rng.random(2) ** 4
        used += weight * losses[0 if safe else 1]
        tally[MEAN_LOSS] += weight * losses[0]
        tally[CURRENT_LOSS] += weight * losses[1]
        tally[LARGEST_WEIGHT] = max(tally[LARGEST_WEIGHT], weight)
        bound = bounds.safe_averaging(tally[MEAN_LOSS], tally[CURRENT_LOSS], largest_weight=tally[LARGEST_WEIGHT])
        assert used <= bound * SLACK


def test_theorem_h_with_weights_is_attained():
    """A light query makes the mean leave; a heavy one then costs the current weights all, and the mean nothing."""
    tally = np.zeros(TALLY_LENGTH)
    tally[MEAN_LOSS], tally[LARGEST_WEIGHT] = 2e-9, 1e-9
    assert not is_mean_safe(tally)
    used = 2e-9 + 1.0  # of weight 1
    assert used == pytest.approx(bounds.safe_averaging(2e-9, 1.0, largest_weight=1.0))
    assert bounds.safe_averaging(2e-9, 1.0) < used  # the bound of queries of weight 1 does not hold


@given(seed=SEEDS, n=st.integers(1, 5), rounds=st.integers(1, 60))
def test_the_leader_keeps_its_guarantee_with_weights(seed, n, rounds):
    rng = np.random.default_rng(seed)
    weights = rng.lognormal(sigma=2, size=rounds)
    losses = weights * (rng.random((n, rounds)) ** rng.choice([0.1, 1, 8], (n, 1)))
    tournament = pr.Tournament([pr.SlamPerceptron()] * n)
    sums = np.cumsum(np.column_stack([np.zeros(n), weights - losses]), axis=1)[:, :-1]
    numbers = np.arange(rounds)
    lost = losses[tournament.model.choices(sums, numbers, numbers), numbers].sum()
    best = losses.sum(axis=1).min()
    assert lost <= bounds.leader(n_learners=n, best_loss=best, largest_weight=weights.max()) * SLACK + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_hedge_keeps_its_guarantee_with_weights_up_to_1(seed):
    rng = np.random.default_rng(seed)
    n, rounds = 4, 300
    losses = rng.random(rounds) ** 2 * (rng.random((n, rounds)) < rng.random((n, 1)))
    total, expected = np.zeros(n), 0.0
    for t in range(1, rounds + 1):
        exponents = -np.sqrt(8 * np.log(n) / t) * (total - total.min())
        chances = np.exp(exponents) / np.exp(exponents).sum()
        expected += chances @ losses[:, t - 1]
        total += losses[:, t - 1]
    assert expected - total.min() <= bounds.hedge(n_learners=n, n_queries=rounds)


@given(data=separable_streams(), kind=KINDS, seed=SEEDS)
def test_parameter_mixing_with_weights(data, kind, seed):
    stream = weighted(data.stream, kind, seed)
    mu = np.random.default_rng(seed).dirichlet(np.ones(3))
    common, masses = None, 0.0
    for _ in range(4):
        parts = []
        for share, place in zip(mu, range(3), strict=True):
            learner = pr.SlamPerceptron("ndcg", learning_rate=0.3)
            if common is not None:
                learner.learn(stream[place::3][:1])
                learner = at_weights(learner, common)
            masses += share * learner.learn(stream[place::3]).masses.sum()
            parts.append(share * learner.weights)
        common = sum(parts)
    D = np.sqrt(stream.query_weights.max()) * pr.theory.diameter(stream)
    bound = promises.parameter_mixing(diameter=D, learning_rate=0.3, margin=data.margin)
    assert masses <= bound * SLACK


@given(stream=streams(), kind=KINDS, seed=SEEDS, penalty=st.sampled_from([0.1, 10.0]))
def test_weighted_ridge(stream, kind, seed, penalty):
    """Theorem R for rows and targets times the root of the query's weight, and against the best u."""
    stream, d = weighted(stream, kind, seed), stream.n_features
    learner, losses, n, first_units = pr.OnlineRidge(penalty), [], 0.0, np.zeros(d)
    gram, products, constant = np.zeros((d, d)), np.zeros(d), 0.0
    for query in stream:
        weights = learner.weights if learner.n_queries else np.zeros(d)
        learner.learn_one(query.X, query.relevance, query.weight)
        first_units = np.where(first_units == 0, learner.units_, first_units)
        if query.weight == 0 or len(set(query.relevance)) < 2:
            continue
        Z, y = query.X - query.X.mean(axis=0), query.relevance - query.relevance.mean()
        losses.append(query.weight * ((y - Z @ weights) ** 2).sum())
        n += query.weight * len(y)
        gram += query.weight * Z.T @ Z
        products += query.weight * Z.T @ y
        constant += query.weight * y @ y
    assume(losses)
    u = learner.weights
    best = constant - 2 * products @ u + u @ gram @ u + penalty * ((learner.units_ * u) ** 2).sum()
    used = learner.units_ > 0
    doublings = round(np.log2(learner.units_[used] / first_units[used]).sum())
    regret = bounds.ridge(n_features=d, n_documents=n, penalty=penalty, largest_loss=max(losses), n_doublings=doublings)
    assert sum(losses) <= (best + regret) * SLACK + 1e-9


def test_a_weighted_certificate_by_hand():
    """A pair of difference 1 and weight 4, then one that is ranked right: S = 4, w = 4, max c D² = 4."""
    ranker = pr.MinimaxPerceptron()
    ranker.learn_one([[1.0], [0.0]], [1, 0], 4.0)
    ranker.learn_one([[2.0], [1.0]], [1, 0], 0.5)
    certificate = ranker.certificate(margin=1.0, diameter=1.0)
    assert (certificate.mass, certificate.norm, certificate.reach, certificate.squared_steps) == (4, 4, 2, 16)
    assert [one.bound for one in certificate.promises] == [4, 4, 4]
    assert "4 D² being D²" in str(certificate)
