"""Theorems in the space of a kernel, budgets, and the adversary of budgets."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.strategies import examples, streams

import perceptrank as pr
from perceptrank.theory import bounds, play_budget

SLACK = 1 + 1e-9


class Function:
    """A fixed function of a Gaussian kernel, with a linear part: documents with coefficients."""

    def __init__(self, seed, stream, width, size, linear=0.0):
        rng = np.random.default_rng(seed)
        self.X = stream.X[rng.integers(0, stream.n_documents, size=4)]
        self.width, self.linear = width, linear
        self.c = rng.normal(size=len(self.X))
        self.c *= size / max(self.norm, 1e-9)

    def values(self, X):
        gaussian = np.exp(-((X[:, None] - self.X[None]) ** 2).sum(-1) / (2 * self.width**2))
        return gaussian + self.linear * X @ self.X.T / self.width**2

    @property
    def norm(self):
        return float(np.sqrt(max(0.0, self.c @ self.values(self.X) @ self.c)))

    def surrogate(self, query, by_levels):
        """Level-pair or max-pair with margin 1."""
        scores = self.values(query.X) @ self.c
        levels = np.unique(query.relevance, return_inverse=True)[1] if by_levels else None
        worst = 0.0
        for i, j in np.argwhere(query.relevance[:, None] > query.relevance):
            apart = levels[i] - levels[j] if by_levels else 1
            worst = max(worst, apart - (scores[i] - scores[j]))
        return worst

    def loss(self, stream, masses, rule):
        found = [
            (mass if rule == "listwise" else 1.0) * self.surrogate(query, rule == "listwise")
            for query, mass in zip(stream, masses, strict=True)
            if mass > 0
        ]
        return float(sum(found))


def teach(seed, stream, width):
    """The stream with grades by a function of the kernel, so that it can be learned."""
    scores = Function(seed, stream, width, 1.0)
    given = scores.values(stream.X) @ scores.c
    return pr.QueryStream.from_arrays(
        stream.X, np.digitize(given, np.quantile(given, [0.4, 0.8])), group=np.diff(stream.offsets)
    )


@pytest.mark.parametrize("rule", ["listwise", "slam", "minimax"])
@pytest.mark.parametrize("budget", [None, 4, 12])
@examples(0.5)
@given(streams(max_queries=25), st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 1.0]), st.floats(0.1, 30))
def test_the_loss_is_bounded_against_every_function(rule, budget, stream, seed, relative_margin, size):
    """Theorems B, C and F without a budget, Theorem K of the Forgetron with one."""
    stream = teach(seed, stream, 1.0)
    policy = "exact" if budget is None else "forgetron"
    learner = pr.KernelPerceptron(
        rule=rule,
        width=1.0,
        budget=budget,
        policy=policy,
        relative_margin=relative_margin,
        linear=0,
        average=False,
        transforms=None,
    )
    trace = learner.learn(stream)
    moved = trace.masses.sum()
    assert trace.losses("ndcg").sum() <= moved * SLACK + 1e-9
    for other in range(3):
        u = Function(seed + other, stream, 1.0, size)
        U, L = u.norm, u.loss(stream, trace.masses, rule)
        rho = 0.0 if rule == "minimax" else relative_margin
        C = 2 * (1 + 2 * rho)
        if budget is None:
            bound = L + U**2 * C / 2 + U * np.sqrt(C * L + U**2 * C**2 / 4)
            assert moved <= bound * SLACK + 1e-9
            assert learner.guarantee(comparator=(U, L)) == pytest.approx(bound)
        else:
            state = learner.model
            assert state.spent <= 15 / 32 * moved * SLACK + 1e-9
            assert moved <= (2 * L + C * U**2 * (1 + state.shrunk / 2) + state.spent) * SLACK + 1e-9
        if moved > 0:
            assert learner.certificate(comparator=(U, L)).holds


@pytest.mark.parametrize("rule", ["listwise", "slam", "minimax"])
@pytest.mark.parametrize("policy", ["exact", "forgetron", "merge"])
@examples(0.5)
@given(
    streams(max_queries=25),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 1.0]),
    st.floats(0.1, 30),
    st.sampled_from([0.0, 0.1, 2.0]),
)
def test_the_loss_is_bounded_by_what_a_budget_lost(rule, policy, stream, seed, relative_margin, size, linear):
    """Theorem K'', and those of the linear learner where nothing is lost, with a linear part of the kernel."""
    assume(policy != "forgetron" or linear)
    stream = teach(seed, stream, 1.0)
    learner = pr.KernelPerceptron(
        rule=rule,
        width=1.0,
        budget=None if policy == "exact" else 6,
        policy=policy,
        relative_margin=relative_margin,
        linear=linear,
        average=False,
        transforms=None,
    )
    trace = learner.learn(stream)
    moved = trace.masses.sum()
    assume(moved > 0)
    rho = 0.0 if rule == "minimax" else relative_margin
    for other in range(3):
        u = Function(seed + other, stream, 1.0, size, linear)
        U, L = u.norm, u.loss(stream, trace.masses, rule)
        found = learner.certificate(comparator=(U, L))
        assert found.holds
        assert found.promises[0].bound == pytest.approx(L + U * (found.norm + learner.model.lost))
        if policy == "exact":
            C = (1 + 2 * rho) * found.reach**2
            assert learner.model.lost == 0
            assert moved <= (L + U * np.sqrt(C * L) + U**2 * C) * SLACK + 1e-9


@pytest.mark.parametrize("budget", [166, 200])
@examples(0.2)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 1), st.integers(1, 4))
def test_the_forgetron_shrinks_little(budget, seed, size, d):
    """The lemma of its bound beforehand: rounds that shrink into the ball of comparators, and what they cost."""
    k, rng = budget // 2, np.random.default_rng(seed)
    learner = pr.KernelPerceptron(
        rule="minimax", policy="forgetron", budget=budget, linear=0, width=1.0, average=False, transforms=None
    )
    ball = 2 * np.sqrt((k + 1) / np.log(k + 1)) / 4 / np.sqrt(2)  # C u, with D = sqrt(2)
    masses, queries, factors, paid = [], [], [], 0.0
    for _ in range(4 * k):
        X = rng.normal(size=(2, d)) * 2 * size
        before = learner.model
        masses.append(float(learner.learn_one(X, [1, 0])))
        queries.append(X)
        state = learner.model
        if state.removals == before.removals:
            continue
        factors.append(np.exp(before.shrunk - state.shrunk))
        if factors[-1] < 1:
            assert state.spent - before.spent >= 15 / 32 - 1e-9  # all that it may spend is spent
            left = np.prod(factors[-k - 1 :])  # of the unit that goes, of length D at first
            if learner._norm(state) + np.sqrt(2) * left < ball:  # at least |f| before the unit went
                assert left >= (k + 1) ** -0.5 - 1e-12
                paid -= np.log(factors[-1])
    assert paid <= sum(masses) * np.log(k + 1) / (2 * (k + 1)) + 1e-9
    stream = pr.QueryStream.from_arrays(
        np.concatenate(queries), np.tile([1, 0], len(queries)), group=[2] * len(queries)
    )
    for other in range(3):
        u = Function(other, stream, 1.0, rng.uniform(0, 1.05) * ball / 2)
        bound = learner.guarantee(comparator=(u.norm, u.loss(stream, masses, "minimax")))
        assert sum(masses) <= bound * SLACK
        assert (bound == np.inf) == (u.norm > ball / 2)
    assert factors


def test_the_forgetron_knows_no_diameter_below_the_largest():
    """It spends by C = 2, whatever the images are: a smaller diameter does not make its bound smaller."""
    learner = pr.KernelPerceptron(rule="minimax", policy="forgetron", budget=1000, linear=0, average=False)
    assert learner.guarantee(diameter=0.1, margin=1.0) == learner.guarantee(margin=1.0) == pytest.approx(64 / 33 * 2)
    assert learner.guarantee(diameter=1.5, margin=1.0) == pytest.approx(64 / 33 * 1.5**2)


def test_numbers_of_the_forgetron():
    assert bounds.forgetron(diameter=1.0, n_units=500, comparator=(2.0, 3.0)) == pytest.approx(64 / 33 * (6 + 4))
    assert bounds.forgetron(diameter=1.0, n_units=82, comparator=(0.1, 3.0)) == np.inf
    assert bounds.forgetron(diameter=1.0, n_units=500, margin=0.4) == np.inf
    assert 1 / 84 + 2 / np.sqrt(84) + 1 / (2 * np.sqrt(np.log(84))) <= 15 / 32
    assert 1 / 83 + 2 / np.sqrt(83) + 1 / (2 * np.sqrt(np.log(83))) > 15 / 32
    with pytest.raises(ValueError, match="give either margin or comparator"):
        bounds.forgetron(diameter=1.0, n_units=500)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 8),
    st.integers(1, 5),
    st.floats(1, 4),
    st.floats(0.01, 100),
    st.floats(0.01, 10),
)
def test_removing_by_chance_beside_weights_costs_little_on_average(seed, k, d, decay, q, size):
    """The same inequality where removals leave the linear part, in coordinates of its own, as it is."""
    rng = np.random.default_rng(seed)
    units, u, added = rng.normal(size=(k, d)), size * rng.normal(size=d), rng.normal(size=d)
    linear, linear_u, linear_added = 3 * rng.normal(size=(3, 2))
    f = units.sum(axis=0)
    factor = max(0.0, (k - decay) / (k - 1)) if k > 1 else 1.0
    beside = ((linear + linear_added - q * linear_u) ** 2).sum()
    after = np.mean([((factor * (f - one) + added - q * u) ** 2).sum() for one in units]) + beside
    gone = min(1.0, decay / k)
    cost = gone / 2 if decay == 1 else gone / (2 - gone)
    without = ((f + added - q * u) ** 2).sum() + beside  # the update, and no removal
    bound = without + cost * (q * np.linalg.norm(u) + np.linalg.norm(added)) ** 2 + (units**2).sum() / k
    assert after <= bound * SLACK + 1e-9 * (1 + q**2 * (u @ u))


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 8),
    st.integers(1, 5),
    st.floats(1, 4),
    st.floats(0.01, 100),
    st.floats(0.01, 10),
)
def test_removing_by_chance_costs_little_on_average(seed, k, d, decay, q, size):
    """The inequality of the proof for one removal, the mean over all k draws taken exactly."""
    rng = np.random.default_rng(seed)
    units, u, added = rng.normal(size=(k, d)), size * rng.normal(size=d), rng.normal(size=d)
    f, U = units.sum(axis=0), np.linalg.norm(u)
    factor = max(0.0, (k - decay) / (k - 1)) if k > 1 else 1.0
    after = np.mean([((factor * (f - one) + added - q * u) ** 2).sum() for one in units])
    gone = min(1.0, decay / k)
    bound = ((f - q * u) ** 2).sum() + gone / (2 - gone) * q**2 * U**2 + (units**2).sum() / k
    bound += 2 * (1 - gone) * f @ added - 2 * q * added @ u + added @ added
    assert after <= bound * SLACK + 1e-9 * (1 + q**2 * U**2)
    if decay == 1:
        assert after <= bound - (gone / (2 - gone) - gone / 2) * q**2 * U**2 + 1e-9 * (1 + q**2 * U**2)


@pytest.mark.parametrize("policy", ["random", "bogd"])
def test_the_expected_loss_on_a_budget(policy):
    """Pairs that do not know of each other, in a circle: one more than fits, and as many as the bound allows."""
    k, rounds = 16, 200
    for n in (k // 4, k + 1):
        runs = []
        for seed in range(20):
            learner = pr.KernelPerceptron(
                rule="minimax",
                policy=policy,
                budget=2 * k,
                seed=seed,
                width=0.01,
                linear=0,
                transforms=None,
                average=False,
            )
            moved = [learner.learn_one([[10.0 * (t % n)], [10.0 * (t % n) + 1]], [1, 0]) for t in range(rounds)]
            runs.append(sum(moved))
        bound = learner.guarantee(comparator=(np.sqrt(n / 2), 0.0))  # u = half the sum of all pairs, D² = 2
        assert np.mean(runs) <= bound
        assert bound < rounds if n < k else bound == np.inf


def test_numbers_of_the_bound_on_a_budget():
    given = {"diameter": 1.0, "relative_margin": 0.0}
    assert bounds.random_budget(n_units=8, comparator=(1.0, 3.0), **given) == pytest.approx((6 + 2) / (1 - 2 / 16))
    assert bounds.random_budget(n_units=8, decay=2, margin=1.0, **given) == pytest.approx(2 / (1 - 2 * 0.25 / 1.75))
    assert bounds.random_budget(n_units=8, share=0.5, margin=1.0, **given) == pytest.approx(2 / (1 - 2 / 8))
    beside = bounds.random_budget(n_units=16, margin=1.0, beside_weights=True, **given)
    assert beside == pytest.approx(2 / (1 - 2 * 1.5**2 / 32))
    assert bounds.random_budget(n_units=1, margin=1.0, **given) == np.inf
    for wrong in ({"n_units": 0}, {"n_units": 2, "decay": 0.5}, {"n_units": 2, "share": 0}):
        with pytest.raises(ValueError, match="must be"):
            bounds.random_budget(margin=1.0, **given, **wrong)
    with pytest.raises(ValueError, match="give either margin or comparator"):
        bounds.random_budget(n_units=2, **given)


def test_the_theorem_of_a_budget_counts_its_decay():
    """Twice what a removal takes costs δ/(2 - δ) with δ = 2/k in place of 1/2k."""
    plain = {"linear": 0, "average": False}
    assert pr.KernelPerceptron(policy="random", **plain).theorem.statement.endswith("D²U² (1 + M/2k)")
    assert pr.KernelPerceptron(policy="bogd", decay=1.0, **plain).theorem.statement.endswith("D²U² (1 + M/2k)")
    decayed = pr.KernelPerceptron(policy="bogd", decay=2.0, **plain).theorem
    assert decayed.statement.endswith("D²U² (1 + 2 M/(2k - 2))")
    assert "at least k ≥ 2 of them kept" in decayed.assumption
    assert "(DU + 1/2)² 2 M/(2k - 2)" in pr.KernelPerceptron(policy="bogd", average=False).theorem.statement


def test_who_has_a_certificate():
    stream = pr.separable(20, n_features=3).stream
    for policy in ("random", "bogd"):
        learner = pr.KernelPerceptron(policy=policy)
        learner.learn(stream)
        with pytest.raises(ValueError, match="expected loss only"):
            learner.certificate(margin=1.0)
        with pytest.raises(ValueError, match="no theorem of this kind"):
            learner.guarantee(margin=1.0)
        assert "expected loss" in str(learner.theorem)
    for learner in (pr.KernelPerceptron(), pr.KernelPerceptron(policy="forgetron", rule="minimax")):
        learner.learn(stream)
        with pytest.raises(ValueError, match="no theorem of this kind"):
            learner.guarantee(margin=1.0)
        assert learner.certificate(margin=0.01).promises[0].formula == "L + U (|f| + E)"
        assert "L + U (|f| + E)" in str(learner.theorem)
    beside = pr.KernelPerceptron(rule="minimax", policy="random", average=False)
    assert beside.guarantee(diameter=1.0, margin=0.5) == pytest.approx(8 / (1 - 2 * 2.5**2 / 1000))
    with pytest.raises(ValueError, match="give diameter or radius"):
        beside.guarantee(margin=0.5)
    averaged = pr.KernelPerceptron(policy="exact", budget=None, linear=0)
    averaged.learn(stream)
    assert averaged.guarantee(margin=0.5) == pytest.approx(3 * 3 * 2 / 0.25 + 2)
    assert [one.name for one in averaged.certificate(margin=0.01).promises][-1] == "safe averaging"
    with pytest.raises(ValueError, match="give diameter or radius"):
        pr.KernelPerceptron(policy="exact", budget=None, kernel="polynomial").guarantee(margin=0.5)
    with pytest.raises(ValueError, match="must be a pair of a norm and a loss here"):
        averaged.guarantee(comparator=pr.theory.Comparator(1.0, 1.0, surrogate="slam"))


@pytest.mark.parametrize("policy", ["random", "forgetron", "bogd", "merge"])
@pytest.mark.parametrize("rule", ["listwise", "slam", "minimax"])
@pytest.mark.parametrize("average", [False, True])
def test_the_adversary_of_budgets_wins_every_round(policy, rule, average):
    learner = pr.KernelPerceptron(rule=rule, policy=policy, budget=5, linear=0, average=average, transforms=None)
    game = play_budget(learner, 5, rounds=60, radius=3.0)
    assert len(game.stream) == 60
    assert not game.is_beaten
    np.testing.assert_allclose(game.trace.losses("ndcg"), 1 - 1 / np.log2(3))
    assert game.lower_bound == pytest.approx(60 * (1 - 1 / np.log2(3)))
    leads = [query.X[1] @ game.separator - query.X[0] @ game.separator for query in game.stream]
    np.testing.assert_allclose(leads, game.margin)
    assert game.margin == pytest.approx(2 * 3.0 / np.sqrt(6))
    assert np.linalg.norm(game.separator) == pytest.approx(1)


@given(st.integers(1, 9))
def test_the_adversary_of_budgets_gives_up_where_there_is_none(budget):
    for learner in (pr.MinimaxPerceptron(), pr.KernelPerceptron(policy="exact", budget=None, transforms=None)):
        game = play_budget(learner, budget, rounds=20 * (budget + 1))
        assert game.is_beaten
        assert len(game.stream) <= 4 * (budget + 1)
    assume(budget > 1)
    assert not play_budget(pr.KernelPerceptron(budget=budget, linear=0, transforms=None), budget).is_beaten
    assert play_budget(pr.KernelPerceptron(budget=budget, transforms=None), budget).is_beaten  # it has weights, too
