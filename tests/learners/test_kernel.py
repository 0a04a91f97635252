"""Kernel perceptrons: the definition in plain NumPy, budgets, widths, and what is refused."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.learners import bits
from support.strategies import examples, streams

import perceptrank as pr
from perceptrank.kernels.chance import noise
from perceptrank.learners.kernel.values import gaussian_values, laplacian_values

POLICIES = {
    "exact": {"policy": "exact", "budget": None},
    "random": {"policy": "random"},
    "forgetron": {"policy": "forgetron"},
    "bogd": {"policy": "bogd"},
    "merge": {"policy": "merge"},
}
ALONE = {"linear": 0.0, "relative_width": 1.0}  # supports alone, and the median as the width


def kernel_values(kernel, width, degree, X, Y):
    squared = ((X[:, None] - Y[None]) ** 2).sum(-1)
    if kernel == "gaussian":
        return np.exp(-squared / (2 * width**2))
    if kernel == "laplacian":
        return np.exp(-np.sqrt(squared) / width)
    return (1 + X @ Y.T / width**2) ** degree


def step_of(rule, margin, scores, grades):
    """What the linear learner of a rule does to scores, as weights of documents that are unit vectors."""
    given = {"initial_weights": scores.tolist(), "average": False, "transforms": None}
    if rule == "listwise":
        learner = pr.ListwisePerceptron(margin=margin, **given)
    elif rule == "slam":
        of_slam = pr.SlamPerceptron("ndcg", learning_rate=1.0, margin=margin, **given) if margin else None
        learner = of_slam or pr.ListwisePerceptron(violators="top", relative_margin=0.0, **given)
    else:
        learner = pr.MinimaxPerceptron("ndcg", **given)
    mass = learner.learn(pr.QueryStream.from_arrays(np.eye(len(scores)), grades)).masses[0]
    return learner.weights - scores, mass


class Twin:
    """Units as a list, everything else computed anew from it."""

    def __init__(self, learner):
        self.set = learner.get_params()
        self.units, self.reaches, self.worths, self.scales = [], [], [], []
        self.steps = []  # all that were ever taken, for the linear part
        self.mass = self.spent = self.shrunk = self.lost = 0.0
        self.width = None
        self.n_updates, self.masses = 0, []

    def values(self, X, Y):
        return kernel_values(self.set["kernel"], self.width, self.set["degree"], X, Y)

    def linear(self, X):
        moved = sum((c @ rows for rows, c in self.steps), np.zeros(X.shape[1]))
        return self.set["linear"] * X @ moved / self.width**2 if self.steps else np.zeros(len(X))

    def f(self, X):
        return sum((self.values(X, rows) @ c for rows, c in self.units), np.zeros(len(X)))

    def length(self, *units):
        """The norm of a sum of units in the space of the kernel, each times its sign."""
        rows = np.concatenate([x for x, _, _ in units])
        c = np.concatenate([sign * one for _, one, sign in units])
        return np.sqrt(max(0.0, c @ self.values(rows, rows) @ c))

    def size(self):
        return sum(len(c) for _, c in self.units)

    def learn_one(self, X, grades):
        rho = 0.0 if self.set["rule"] == "minimax" else self.set["relative_margin"]
        margin = rho * np.mean(self.reaches) if self.reaches else 0.0
        scores = self.f(X) + self.linear(X)
        step, mass = step_of(self.set["rule"], margin, scores, grades)
        self.masses.append(mass)
        if not mass > 0:
            return
        if self.width is None:
            upper = np.triu_indices(len(X), 1)
            apart = np.sqrt(((X[:, None] - X[None]) ** 2).sum(-1))[upper]
            self.width = self.set["relative_width"] * np.median(apart[apart > 0]) if apart.any() else None
        self.n_updates += 1
        self.mass += mass
        if self.width is None:
            self.reaches.append(0.0)
            return
        budget = self.set["budget"] or np.inf
        lower = np.unique(grades, return_inverse=True)[1]
        if (step != 0).sum() > budget:  # the pair that is violated most
            higher = lower.max() - lower
            keys = scores + (margin if self.set["rule"] == "listwise" else 0.0) * higher
            pairs = [(keys[j] - keys[i], -i, -j) for i in range(len(X)) for j in range(len(X)) if grades[i] > grades[j]]
            _, i, j = max(pairs)
            step = np.zeros(len(X))
            step[-i], step[-j] = mass, -mass
        kept = step != 0
        rows, c = X[kept], step[kept]
        linear = self.set["linear"] / self.width**2 * ((c @ rows) ** 2).sum()
        self.reaches.append((c @ self.values(rows, rows) @ c + linear) / mass**2)
        self.steps.append((rows, c))
        worth, scale = (c @ lower[kept] if self.set["rule"] == "listwise" else mass), 1.0
        policy = self.set["policy"]
        if policy == "merge" and self.size() + len(c) > budget:
            self.merge(rows, c)
            return
        if policy == "forgetron":
            n_gone = 0
            while self.size() - sum(len(u[1]) for u in self.units[:n_gone]) + len(c) > budget:
                n_gone += 1
            if n_gone:
                seen = max(self.reaches) if self.set["linear"] else 0.0
                before = self.units
                scale = self.forget(n_gone, rows, c, (1 + 2 * rho) * max(2.0, seen))
                gone = [(*one, 1.0) for one in [*before, (rows, c)]]
                self.lost += self.length(*gone, *((*one, -1.0) for one in [*self.units, (rows, scale * c)]))
                c = c * scale
        else:
            number = 0
            while self.size() + len(c) > budget:
                k = len(self.units)
                del self.units[int(noise(self.set["seed"], self.n_updates, number) * k)]
                factor = 1.0 if policy == "random" or k == 1 else max(0.0, (1 - self.set["decay"] / k) * k / (k - 1))
                self.units = [(x, factor * one) for x, one in self.units]
                number += 1
        self.units.append((rows, c))
        self.worths.append(worth)
        self.scales.append(scale)

    def merge(self, rows, c):
        """Document by document: onto the image that it has the smallest angle with."""
        X = np.concatenate([x for x, _ in self.units])
        coefficients = np.concatenate([one for _, one in self.units])
        merged = np.zeros(len(X))
        for x, one in zip(rows, c, strict=True):
            values = self.values(x[None], X)[0]
            squares = np.array([self.values(y[None], y[None])[0, 0] for y in X])
            nearest = np.argmax(values**2 / squares)
            merged[nearest] += one * values[nearest] / squares[nearest]
        self.lost += self.length((rows, c, 1.0), (X, merged, -1.0))
        self.units = [(X, coefficients + merged)]

    def forget(self, n_gone, rows, c, constant):
        gone_x = np.concatenate([x for x, _ in self.units[:n_gone]])
        gone_c = np.concatenate([one for _, one in self.units[:n_gone]])
        norm = gone_c @ self.values(gone_x, gone_x) @ gone_c
        product = gone_c @ (self.f(gone_x) + self.values(gone_x, rows) @ c)
        linear = 2 * sum(s * v for s, v in zip(self.scales[:n_gone], self.worths[:n_gone], strict=True))

        def cost(p):
            return p**2 * (norm - 2 * product) / constant + p * linear

        allowed = 15 / 32 * self.mass - self.spent
        low, high = 0.0, 1.0
        if cost(1.0) <= allowed:
            low = 1.0
        else:  # by halving: costs rise up to the first root
            for _ in range(200):
                middle = (low + high) / 2
                low, high = (middle, high) if cost(middle) <= allowed else (low, middle)
        self.spent += cost(low)
        self.shrunk -= np.log(low)
        self.units = [(x, low * one) for x, one in self.units[n_gone:]]
        self.scales, self.worths = [low * one for one in self.scales[n_gone:]], self.worths[n_gone:]
        return low


def separated(seed, n=25, m=6, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n * m, d))
    return pr.QueryStream.from_arrays(X, rng.integers(0, 3, n * m), group=[m] * n)


RULES, KERNELS = ("listwise", "slam", "minimax"), ("gaussian", "laplacian", "polynomial")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("rule", "kernel"),
    [
        # a rule sees scores, whichever kernel they are from
        pytest.param(rule, kernel, marks=() if rule == "listwise" or kernel == "gaussian" else pytest.mark.deep)
        for rule in RULES
        for kernel in KERNELS
    ],
)
def test_rounds_are_those_of_the_definition(policy, rule, kernel):
    if policy == "forgetron" and kernel == "polynomial":
        pytest.skip("refused")
    for seed, budget, linear in ((1, 13, 0.0), (2, 4, 0.0), (3, 13, 0.7)):
        settings = {"budget": budget, "linear": linear, "relative_width": 1 - linear / 2} | POLICIES[policy]
        learner = pr.KernelPerceptron(rule=rule, kernel=kernel, average=False, seed=5, transforms=None, **settings)
        twin = Twin(learner)
        for query in separated(seed):
            found, expected = learner.predict(query.X), twin.f(query.X) + twin.linear(query.X)
            if linear:  # weights are those of documents minus one of them, which adds the same to all scores
                found, expected = found - found[0], expected - expected[0]
            np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
            learner.learn_one(query.X, query.relevance)
            twin.learn_one(query.X, query.relevance)
            assert learner.n_supports == twin.size()
            assert learner.n_supports <= (settings["budget"] or np.inf)
            assert policy == "merge" or learner.n_units == len(twin.units)
        assert learner.n_updates == twin.n_updates > 10
        assert learner.width_ == pytest.approx(twin.width)
        if policy in ("merge", "forgetron"):
            assert learner.model.lost == pytest.approx(twin.lost, rel=1e-6)
            assert learner.model.lost > 0
        if policy == "forgetron":
            assert learner.model.spent == pytest.approx(twin.spent)
            assert learner.model.shrunk == pytest.approx(twin.shrunk)
            assert learner.model.removals > 0


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("average", [True, False])
@examples(0.3)
@given(stream=streams(), cut=st.integers(1, 11), budget=st.integers(2, 20), linear=st.sampled_from([0.0, 2.0]))
def test_save_load_and_continue_equals_never_stopping(policy, average, stream, cut, budget, linear, tmp_path):
    settings = {"budget": budget, "linear": linear, "average": average} | POLICIES[policy]
    make = lambda: pr.KernelPerceptron(**settings)  # noqa: E731
    whole, first, single = make(), make(), make()
    trace = whole.learn(stream, "ndcg")
    first.learn(stream[:cut])
    first.save(tmp_path / "m.json")
    second = pr.load(tmp_path / "m.json")
    if cut < len(stream):
        second.learn(stream[cut:])
    moved = [single.learn_one(query.X, query.relevance) for query in stream]
    assert bits(whole) == bits(second) == bits(single)
    assert np.array_equal(moved, trace.masses > 0)
    assert np.array_equal(whole.scores(stream), second.scores(stream))
    assert whole.n_supports <= (whole.budget or np.inf)


def test_hand_worked_rounds():
    """Two queries of two documents with the distance 1, so that the width is 1 and values are e^-1/2 and e^-2."""
    learner = pr.KernelPerceptron(rule="minimax", policy="exact", budget=None, average=False, transforms=None, **ALONE)
    assert learner.learn_one([[0.0], [1.0]], [1, 0]) is True  # tied at 0: f = K(0, .) - K(1, .)
    assert (learner.width_, learner.n_supports) == (1.0, 2)
    near, far = np.exp(-1 / 2), np.exp(-2)
    np.testing.assert_allclose(learner.predict([[0.0], [1.0], [2.0]]), [1 - near, near - 1, far - near], rtol=1e-12)
    assert learner.learn_one([[0.0], [1.0]], [1, 0]) is False
    assert learner.learn_one([[1.0], [2.0]], [0, 1]) is True  # f(1) = near - 1 > f(2) = far - near: far from it
    np.testing.assert_allclose(learner.dual_coef_, [1, -1, -1, 1])
    found = learner.certificate(margin=1.0)
    assert found.mass == found.updates == 2
    np.testing.assert_allclose(found.reach**2, 2 - 2 * near)


def test_hand_worked_forgetron():
    """One removal of a pair with minimax, the rest by the formula: V = 1, s = 1, C = 2."""
    learner = pr.KernelPerceptron(
        rule="minimax", policy="forgetron", budget=2, linear=0, average=False, width=1e-3, transforms=None
    )
    learner.learn_one([[0.0], [1.0]], [1, 0])
    learner.learn_one([[10.0], [11.0]], [1, 0])  # far away: all products are 0, but with themselves
    # |r|^2 = 2 and <f, r> = 2: p^2 (2 - 4) / 2 + 2 p = 15/32 * 2, so (1 - p)^2 = 1/16
    np.testing.assert_allclose(learner.dual_coef_, [0.75, -0.75], rtol=1e-12)
    assert learner.model.spent == pytest.approx(15 / 16)
    assert learner.model.shrunk == pytest.approx(np.log(4 / 3))


def test_hand_worked_linear_part():
    """K + 2 x . y / width^2 with the width 1, half the distance of the first two documents."""
    learner = pr.KernelPerceptron(rule="minimax", average=False, transforms=None)
    learner.learn_one([[0.0], [2.0]], [0, 1])  # f = K(2, .) - K(0, .) + 2 (2 - 0) .
    far = np.exp(-2)
    assert (learner.width_, learner.n_supports) == (1.0, 2)
    np.testing.assert_allclose(learner.linear_coef_, [4.0])
    low, high = learner.predict([[0.0], [2.0]])
    assert high - low == pytest.approx(2 * (1 - far) + 2 * 4.0)
    found = learner.certificate(margin=1.0)
    assert found.reach**2 == pytest.approx(2 * (1 - far) + 2 * 2**2)  # |phi(2) - phi(0)|^2
    assert found.norm == pytest.approx(found.reach)
    averaged = pr.KernelPerceptron(rule="minimax", transforms=None)
    for _ in range(3):
        averaged.learn_one([[0.0], [2.0]], [0, 1])
    np.testing.assert_allclose(averaged.linear_coef_, [4.0])


def test_hand_worked_merging():
    """A third document near the first of two supports: its coefficient goes there, times the value of the kernel."""
    learner = pr.KernelPerceptron(rule="minimax", budget=3, linear=0, width=1.0, average=False, transforms=None)
    learner.learn_one([[0.0], [10.0]], [1, 0])
    learner.learn_one([[10.0], [1.0]], [1, 0])  # the value of 0 and 1 is e^-1/2; 10 is a support itself
    near = np.exp(-1 / 2)
    np.testing.assert_allclose(learner.dual_coef_, [1 - near, 0.0], atol=1e-15)
    np.testing.assert_allclose(learner.supports_, [[0.0], [10.0]])
    assert learner.model.lost == pytest.approx(np.sqrt(1 - near**2))  # of an image of length 1


def test_bounded_gradient_descent_with_a_decay_of_one_is_the_randomised_budget():
    stream = separated(3, 60)
    by_chance = pr.KernelPerceptron(policy="random", budget=20)
    bounded = pr.KernelPerceptron(policy="bogd", decay=1.0, budget=20)
    by_chance.learn(stream)
    bounded.learn(stream)
    assert bits(by_chance) == bits(bounded)
    assert by_chance.model.removals > 20


def test_removals_by_chance_are_uniform():
    """Of k units each goes as often as the others, over seeds."""
    gone = []
    for seed in range(300):
        settings = {"rule": "minimax", "policy": "random", "budget": 8, "linear": 0, "width": 0.01}
        learner = pr.KernelPerceptron(seed=seed, transforms=None, **settings)
        for t in range(5):
            learner.learn_one([[10.0 * t], [10.0 * t + 1]], [1, 0])
        left = set(learner.supports_[::2, 0])
        gone += [t for t in range(5) if 10.0 * t not in left]
    counts = np.bincount(gone, minlength=5)
    assert counts[4] == 0
    assert counts[:4].min() > 45


def test_a_query_larger_than_the_budget_moves_its_widest_pair():
    rng = np.random.default_rng(0)
    learner = pr.KernelPerceptron(budget=5, average=False, transforms=None)
    moved = learner.learn(pr.QueryStream.from_arrays(rng.normal(size=(12, 3)), np.arange(12) % 4)).masses[0]
    assert learner.n_supports == 2
    np.testing.assert_allclose(np.sort(learner.dual_coef_), [-moved, moved])
    assert 0 < moved <= 1 + 1e-12


@pytest.mark.parametrize("policy", POLICIES)
def test_states_are_replaced_and_never_changed(policy):
    learner = pr.KernelPerceptron(**({"budget": 15} | POLICIES[policy]))
    stream = separated(4, 30)
    learner.learn(stream[:10])
    for query in stream[10:]:
        before = learner.model
        kept = json.dumps(before.as_plain())
        twin = learner.with_model(learner.model)
        learner.learn_one(query.X, query.relevance)
        twin.learn_one(query.X, query.relevance)
        assert json.dumps(before.as_plain()) == kept
        assert bits(twin) == bits(learner)
        with pytest.raises(ValueError, match="feature"):
            learner.learn_one([[np.nan] * 3, [1.0] * 3], [1, 0])
        assert bits(twin) == bits(learner)


@given(st.integers(0, 2**32 - 1))
def test_values_are_those_of_the_library(seed):
    rng = np.random.default_rng(seed)
    t = -(10 ** rng.uniform(-8, 2.84, size=(3, 41)))
    gaussian_values(1.0, np.zeros(3), np.zeros(41), found := t / 2)  # products of documents at the distance sqrt(-t)
    np.testing.assert_allclose(found, np.exp(t), rtol=4e-16)


@pytest.mark.parametrize("fill", [gaussian_values, laplacian_values])
def test_values_do_not_depend_on_how_many_there_are(fill):
    rng = np.random.default_rng(9)
    products, norms, others = rng.normal(size=(3, 67)), 3 + rng.random(3), 3 + rng.random(67)
    fill(0.3, norms, others, whole := products.copy())
    for start, n in ((0, 1), (5, 2), (11, 3), (20, 7), (30, 13), (1, 66)):
        part = np.ascontiguousarray(products[1:, start : start + n])
        fill(0.3, norms[1:], others[start : start + n], part)
        assert np.array_equal(part, whole[1:, start : start + n])


def test_what_the_kernel_sees_does_not_depend_on_where_documents_are():
    stream = separated(5)
    moved = stream.with_features(stream.X + 1e6)
    one, other = (pr.KernelPerceptron(transforms=None, policy="exact", budget=None, linear=0.5) for _ in range(2))
    one.learn(stream)
    other.learn(moved)
    np.testing.assert_allclose(one.dual_coef_, other.dual_coef_, rtol=1e-4, atol=1e-6)


def test_documents_that_are_all_the_same_decide_no_width():
    learner = pr.KernelPerceptron(transforms=None, relative_width=1.0)
    assert learner.learn_one([[1.0, 2.0], [1.0, 2.0]], [1, 0]) is True
    assert (learner.width_, learner.n_supports, learner.n_updates) == (None, 0, 1)
    learner.learn_one([[0.0, 2.0], [3.0, 6.0]], [1, 0])
    assert (learner.width_, learner.n_supports) == (5.0, 2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rule": "pairwise"}, "rule must be one of 'listwise', 'minimax', 'slam'"),
        ({"kernel": "sigmoid"}, "kernel must be one of"),
        ({"policy": "oldest"}, "policy must be one of 'exact', 'random', 'forgetron', 'bogd', 'merge'"),
        ({"budget": 1}, "budget must be a whole number >= 2"),
        ({"budget": None}, "budget must be a whole number >= 2"),
        ({"policy": "exact"}, "budget must be None"),
        ({"policy": "forgetron", "kernel": "polynomial"}, 'policy must not be "forgetron"'),
        ({"width": 0}, "width must be a number from"),
        ({"width": 1e-200}, "width must be a number from"),
        ({"width": np.inf}, "width must be a number from"),
        ({"relative_width": 0}, "relative_width must be"),
        ({"linear": -1}, "linear must be"),
        ({"linear": 1e7}, "linear must be at most"),
        ({"degree": 0}, "degree must be a whole number > 0"),
        ({"degree": 99}, "degree must be at most"),
        ({"decay": 0.5}, "decay must be at least 1"),
        ({"relative_margin": -1}, "relative_margin must be"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_invalid_settings(wrong, message):
    with pytest.raises(ValueError, match=message):
        pr.KernelPerceptron(**wrong)


@pytest.mark.parametrize("scale", [1e-170, 1e120])
def test_widths_that_under_or_overflow_are_refused(scale):
    learner = pr.KernelPerceptron(transforms=None)
    with pytest.raises(ValueError, match="scale the features"):
        learner.learn_one(scale * np.eye(2), [1, 0])
    assert learner.n_queries == 0


def test_what_it_does_not_have_or_take():
    learner = pr.KernelPerceptron()
    learner.learn(separated(6))
    with pytest.raises(AttributeError, match="no weights of features"):
        _ = learner.coef_
    with pytest.raises(ValueError, match="learner must rank by weights"):
        pr.Bagging(pr.KernelPerceptron())
    with pytest.raises(ValueError, match="cannot be exported"):
        pr.deploy.export(learner, "python")
    with pytest.raises(ValueError, match="budget cannot be changed"):
        learner.set_params(budget=5)
    sparse = pr.QueryStream.from_arrays(pr.SparseFeatures.from_dense(np.eye(2)), [1, 0])
    with pytest.raises(TypeError, match="dense features only"):
        pr.KernelPerceptron().learn(sparse)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"coefficients": [1.0]}, "documents must be 6 numbers"),
        ({"sizes": [0]}, "sizes must be positive"),
        ({"masses": [-1.0]}, "masses must not be negative"),
        ({"width": 0.0}, "width must be positive"),
        ({"width": 1e200}, "width must be from"),
        ({"lost": -1.0}, "lost and shrunk must not be negative"),
        ({"scales": [2.0]}, "scales must be at most 1"),
        ({"products": []}, "products must be there"),
        ({"spent": 1e9}, "spent must be at most"),
        ({"documents": [1e200] * 12}, "documents are too large"),
        (
            {"coefficients": [1.0] * 4, "totals": [1.0] * 4, "documents": [1.0] * 24, "sizes": [4]},
            "more than the budget",
        ),
    ],
)
def test_damaged_models_are_refused(damage, message):
    learner = pr.KernelPerceptron(rule="minimax", policy="forgetron", budget=2)
    learner.learn(separated(7))
    document = learner.as_document()
    document["state"]["kernel"] |= damage
    with pytest.raises(ValueError, match=message):
        pr.KernelPerceptron.from_document(document)


JUNK = [None, True, -1, 0.5, 2**60, 10**400, float("nan"), float("inf"), 1e300, "x", [], {}, [None], [[1.0]], [1.0] * 7]


def damaged_entries(kept):
    """The kernel's part of a state, wrong in one place each."""
    for name, value in kept.items():
        yield f"no {name}", {key: one for key, one in kept.items() if key != name}
        for junk in JUNK:
            yield f"{name}={str(junk)[:9]}", kept | {name: junk}
        if isinstance(value, list) and value:
            yield f"{name} too short", kept | {name: value[:-1]}
            yield f"{name} too long", kept | {name: [*value, value[0]]}
            yield f"{name} in rows", kept | {name: [value]}
            for junk in (None, "1", True, float("nan"), float("inf"), 10**400, 1e200, -1e9):
                yield f"{name}[0]={junk}", kept | {name: [junk, *value[1:]]}


@pytest.mark.parametrize(
    "policy", [pytest.param(one, marks=() if one in ("random", "merge") else pytest.mark.deep) for one in POLICIES]
)
def test_damaged_states_are_refused_or_harmless(policy, tmp_path):
    """A file that is wrong somewhere is no model, or one that ranks and learns on within its budget."""
    learner = pr.KernelPerceptron(**({"budget": 14} | POLICIES[policy]))
    learner.learn(stream := separated(13, 12))
    path, refused = tmp_path / "m.json", 0
    learner.save(path)
    written = json.loads(path.read_text())
    for what, kept in damaged_entries(written["state"]["kernel"]):
        path.write_text(json.dumps(written | {"state": written["state"] | {"kernel": kept}}))
        try:
            model = pr.load(path)
        except pr.FormatError:
            refused += 1
            continue
        shapes = "=", " too", " in"  # of what is wrong in other places, some is only another number
        arrays = [name + how for name in ("documents", "sizes", "center", "coefficients", "totals") for how in shapes]
        assert not what.startswith(("no ", *arrays)) or what == "no lost", what
        try:
            scores = model.scores(stream)
            model.learn(stream)
        except ValueError as error:
            assert "overflow" in str(error), what  # noqa: PT017
            continue
        assert np.isfinite(scores).all(), what
        assert model.n_supports <= (model.budget or np.inf), what
        assert model.n_supports == len(model.dual_coef_) == len(model.supports_), what
    assert refused > 150


def test_it_learns_what_is_not_linear():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(2000, 3))
    stream = pr.QueryStream.from_arrays(X, np.clip(np.round(X[:, 0] ** 2), 0, 3), group=[10] * 200)
    late = {}
    for learner in (pr.ListwisePerceptron(), pr.KernelPerceptron(budget=300)):
        late[learner.algorithm] = learner.learn(stream, "ndcg").values("ndcg")[100:].mean()
    assert late["kernel"] > late["listwise"] + 0.15
