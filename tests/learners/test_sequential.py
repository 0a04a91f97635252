"""Learners that take documents or pairs one after the other, against plain code from their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import streams
from support.twins import AdaGradSteps

import perceptrank as pr
from perceptrank.kernels.chance import noise
from perceptrank.theory import bounds


class TwinPRank:
    """PRank as in the paper; several of them make OAP-BPM."""

    def __init__(self, d, n_thresholds, margin=0.0):
        self.w, self.b, self.margin = np.zeros(d), np.zeros(n_thresholds), margin

    def learn(self, x, grade):
        score = self.w @ x
        sides = np.where(grade >= np.arange(1, len(self.b) + 1), 1.0, -1.0)
        tau = np.where((score - self.b) * sides <= self.margin, sides, 0.0)
        self.w = self.w + tau.sum() * x
        self.b = self.b - tau
        return tau.any()


def prank_twin(stream, members, share, n_grades, seed):
    twins = [TwinPRank(stream.n_features, n_grades - 1) for _ in range(members)]
    for number, (x, grade) in enumerate(zip(stream.X.astype(float), stream.relevance, strict=True)):
        for place, twin in enumerate(twins):
            if share == 1 or noise(seed, number, place) < share:
                twin.learn(x, grade)
    return twins


@pytest.mark.kernel
@given(stream=streams(), n_grades=st.integers(2, 6))
def test_prank(stream, n_grades):
    learner = pr.PRank(n_grades)
    learner.learn(stream)
    (twin,) = prank_twin(stream, 1, 1, n_grades, 0)
    np.testing.assert_allclose(learner.weights, twin.w, atol=1e-9)
    np.testing.assert_array_equal(learner.thresholds, twin.b)
    assert (np.diff(learner.thresholds) >= 0).all()  # they stay in order


@pytest.mark.kernel
@given(stream=streams(), members=st.integers(1, 4), share=st.sampled_from([0.3, 1.0]), seed=st.integers(0, 99))
def test_oap_bpm(stream, members, share, seed):
    learner = pr.OapBpm(members, share=share, n_grades=4, seed=seed)
    learner.learn(stream)
    twins = prank_twin(stream, members, share, 4, seed)
    np.testing.assert_allclose(learner.weights, np.mean([twin.w for twin in twins], axis=0), atol=1e-9)


@pytest.mark.kernel
@given(stream=streams(), n_grades=st.integers(2, 6), margin=st.sampled_from([0.0, 0.5, 1.0, 4.0]))
def test_prank_with_a_margin(stream, n_grades, margin):
    learner = pr.MarginPRank(margin, n_grades=n_grades)
    learner.learn(stream)
    twin = TwinPRank(stream.n_features, n_grades - 1, margin)
    for x, grade in zip(np.asarray(stream.X, dtype=float), stream.relevance, strict=True):
        twin.learn(x, grade)
    np.testing.assert_allclose(learner.weights, twin.w, atol=1e-9)
    np.testing.assert_array_equal(learner.thresholds, twin.b)
    assert (np.diff(learner.thresholds) >= 0).all()  # they stay in order, whatever the margin


def test_prank_without_a_margin_is_prank():
    stream = pr.separable(40, seed=4).stream
    one, other = pr.PRank(), pr.MarginPRank(0.0)
    one.learn(stream)
    other.learn(stream)
    assert one.as_document()["state"] == other.as_document()["state"]


@given(st.integers(0, 10**4), st.integers(2, 5), st.integers(1, 4), st.sampled_from([0.0, 0.5, 3.0, 50.0]))
def test_prank_keeps_its_bound(seed, n_grades, d, margin):
    """Thresholds wrong, in sum, at most K / gamma^2, K = n R^2 + 1, for a unit vector (w*, b*) with margin gamma.

    With a margin of its own, as long as that is at most K / 2, and a little more if it is larger; and together with
    those that were right by less than the margin, at most (K + 2 margin) / gamma^2.
    """
    rng = np.random.default_rng(seed)
    ranker, levels = rng.normal(size=d), np.sort(rng.normal(size=n_grades - 1))
    X = rng.normal(size=(300, d))
    scores = X @ ranker
    gaps = np.abs(scores[:, None] - levels).min(axis=1)
    X, scores = X[gaps > 0.05], scores[gaps > 0.05]
    if not len(X):
        return
    grades = (scores[:, None] > levels).sum(axis=1).astype(float)
    norm = np.sqrt(ranker @ ranker + levels @ levels)
    gamma = np.abs(scores[:, None] - levels).min() / norm
    twin, wrong, violated = TwinPRank(d, n_grades - 1, margin), 0, 0
    learner = pr.MarginPRank(margin, n_grades=n_grades)
    for x, grade in zip(X, grades, strict=True):
        sides = np.where(grade >= np.arange(1, n_grades), 1, -1)
        distances = sides * (twin.w @ x - twin.b)
        wrong += (distances <= 0).sum()
        violated += (distances <= margin).sum()
        assert abs((twin.w @ x - twin.b > 0).sum() - grade) <= (distances <= 0).sum()
        twin.learn(x, grade)
        learner.learn_one([x], [grade])
    np.testing.assert_allclose(learner.weights, twin.w, atol=1e-8)
    radius = np.linalg.norm(X, axis=1).max()
    assert wrong <= bounds.prank(n_grades=n_grades, radius=radius, margin=gamma, threshold_margin=margin) * (1 + 1e-9)
    assert violated <= ((n_grades - 1) * radius**2 + 1 + 2 * margin) / gamma**2 * (1 + 1e-9)


def test_bounds_of_prank_by_hand():
    assert bounds.prank(n_grades=2, radius=3.0, margin=0.5) == pytest.approx(10 * 4)
    assert bounds.prank(n_grades=5, radius=1.0, margin=1.0, threshold_margin=2.5) == pytest.approx(5)
    assert bounds.prank(n_grades=5, radius=1.0, margin=1.0, threshold_margin=10.0) == pytest.approx(25**2 / 80)
    with pytest.raises(ValueError, match="n_grades must be at least 2"):
        bounds.prank(n_grades=1, radius=1.0, margin=1.0)
    with pytest.raises(ValueError, match="threshold_margin"):
        bounds.prank(n_grades=2, radius=1.0, margin=1.0, threshold_margin=-1.0)


def test_what_a_margin_of_prank_buys():
    """Once nothing is violated, (w, b) / |(w, b)| has a margin of at least gamma margin / (K + 2 margin)."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 2))
    scores, levels = X @ [0.6, 0.8], np.array([-0.5, 0.4])
    X = X[np.abs(scores[:, None] - levels).min(axis=1) > 0.1]
    grades = (levels[:, None] < X @ [0.6, 0.8]).sum(axis=0)
    gamma = np.abs((X @ [0.6, 0.8])[:, None] - levels).min() / np.sqrt(1 + levels @ levels)
    K = 2 * np.square(X).sum(axis=1).max() + 1
    for margin in (1.0, 20.0):
        learner = pr.MarginPRank(margin, n_grades=3)
        stream = pr.QueryStream.from_arrays(X, grades, group=[len(X)])
        for _ in range(5000):
            before = learner.n_updates
            learner.learn(stream)
            if learner.n_updates == before:
                break
        sides = np.where(grades[:, None] >= [1, 2], 1, -1)
        found = (sides * ((X @ learner.weights)[:, None] - learner.thresholds)).min()
        found /= np.sqrt(learner.weights @ learner.weights + learner.thresholds @ learner.thresholds)
        assert found >= gamma * margin / (K + 2 * margin)


STEPS = st.sampled_from(["constant", "diagonal", "norm"])


def with_steps(learner, steps):
    """The learner, or AdaGrad around it, and what a twin does with its steps."""
    if steps == "constant":
        return learner, lambda step: step
    return pr.AdaGrad(learner, steps=steps), AdaGradSteps(steps)


@pytest.mark.kernel
@given(stream=streams(max_queries=6), decay=st.sampled_from([0.0, 0.1]), steps=STEPS)
def test_opauc_is_the_gradient_of_all_pairs_so_far(stream, decay, steps):
    learner, adapt = with_steps(pr.Opauc(0.05, decay=decay), steps)
    learner.learn(stream)
    w, seen = np.zeros(stream.n_features), {True: [], False: []}
    for x, grade in zip(stream.X.astype(float), stream.relevance, strict=True):
        others = seen[not grade > 0]
        if others:
            gradient = decay * w
            for other in others:
                apart = (x - other) if grade > 0 else (other - x)
                gradient = gradient - (1 - w @ apart) * apart / len(others)
            w = w - 0.05 * adapt(gradient)
        seen[bool(grade > 0)].append(x)
    np.testing.assert_allclose(learner.weights, w, rtol=1e-6, atol=1e-8)


# No lead of whole features and steps of 0.3 equals it, so that rounding never decides who is within the margin.
MARGIN = np.pi / 4


@pytest.mark.kernel
@given(stream=streams(), size=st.integers(1, 6), seed=st.integers(0, 99), steps=STEPS)
def test_buffered_pairwise(stream, size, seed, steps):
    learner, adapt = with_steps(pr.BufferedPairwise(0.3, buffer_size=size, margin=MARGIN, seed=seed), steps)
    learner.learn(stream)
    w, buffer = np.zeros(stream.n_features), []
    for number, (x, grade) in enumerate(zip(stream.X.astype(float), stream.relevance, strict=True)):
        pairs = [(x - y) if grade > other else (y - x) for y, other in buffer if other != grade]
        wrong = [apart for apart in pairs if w @ apart < MARGIN]
        if wrong:
            w = w + 0.3 * adapt(np.sum(wrong, axis=0) / len(pairs))
        if number < size:
            buffer.append((x, grade))
        elif (place := int(noise(seed, number, 0) * (number + 1))) < size:
            buffer[place] = (x, grade)
    np.testing.assert_allclose(learner.weights, w, rtol=1e-7, atol=1e-9)


def test_every_document_has_the_same_chance_to_be_kept():
    stream = pr.QueryStream.from_arrays(np.arange(40.0)[:, None], np.zeros(40), group=[40])
    kept = np.zeros(40)
    for seed in range(600):
        learner = pr.BufferedPairwise(buffer_size=8, seed=seed)
        learner.learn(stream)
        kept[np.ravel(learner.as_document()["state"]["kept"]).astype(int)] += 1
    assert kept.sum() == 600 * 8
    expected, deviation = 600 * 0.2, np.sqrt(600 * 0.2 * 0.8)
    assert np.abs(kept - expected).max() < 5 * deviation


def pairs_of(query):
    X = query.X.astype(float)
    for i in range(len(X)):
        for j in range(len(X)):
            if query.relevance[i] > query.relevance[j]:
                yield X[i] - X[j]


@pytest.mark.kernel
@given(stream=streams(), limit=st.sampled_from([0.01, 0.5, 10.0]))
def test_solar_one(stream, limit):
    learner = pr.SolarI(limit)
    learner.learn(stream)
    w = np.zeros(stream.n_features)
    for query in stream:
        for x in pairs_of(query):
            loss = 1 - w @ x
            if loss > 0 and x.any():
                w = w + min(limit, loss / (x @ x)) * x
    np.testing.assert_allclose(learner.weights, w, rtol=1e-6, atol=1e-8)


@pytest.mark.kernel
@given(stream=streams(max_queries=6), gamma=st.sampled_from([0.5, 10.0]), kind=st.sampled_from(["diagonal", "full"]))
def test_solar_two(stream, gamma, kind):
    learner = pr.SolarII(gamma, covariance=kind)
    learner.learn(stream)
    d = stream.n_features
    w, S = np.zeros(d), np.eye(d)
    for query in stream:
        for x in pairs_of(query):
            loss = 1 - w @ x
            if loss > 0 and x @ S @ x > 0:
                beta = 1 / (x @ S @ x + gamma)
                w = w + loss * beta * (S @ x)
                step = beta * np.outer(S @ x, S @ x)
                S = S - (np.diag(np.diag(step)) if kind == "diagonal" else step)
    np.testing.assert_allclose(learner.weights, w, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(learner.covariance_, np.diag(S) if kind == "diagonal" else S, rtol=1e-6, atol=1e-8)


def test_rounds_by_hand():
    prank = pr.PRank(3)
    prank.learn_one([[1.0]], [1])  # the score 0 is not above b_1 and not below b_2: one up, one down
    assert (prank.weights.tolist(), prank.thresholds.tolist()) == ([0.0], [-1.0, 1.0])
    prank.learn_one([[2.0]], [2])  # 0 is above b_1 = -1, not above b_2 = 1
    assert (prank.weights.tolist(), prank.thresholds.tolist()) == ([2.0], [-1.0, 0.0])
    wide = pr.MarginPRank(1.0, n_grades=3)
    wide.learn_one([[1.0]], [1])
    assert (wide.weights.tolist(), wide.thresholds.tolist()) == ([0.0], [-1.0, 1.0])
    wide.learn_one([[1.0]], [1])  # 0 is above b_1 = -1 and below b_2 = 1, both by no more than the margin
    assert (wide.weights.tolist(), wide.thresholds.tolist()) == ([0.0], [-2.0, 2.0])
    wide.learn_one([[3.0]], [2])  # 2 above b_1, which is enough; not above b_2
    assert (wide.weights.tolist(), wide.thresholds.tolist()) == ([3.0], [-2.0, 1.0])
    both = pr.OapBpm(2, share=1.0, n_grades=3)  # members that see everything are all the same
    both.learn_one([[1.0]], [1])
    both.learn_one([[2.0]], [2])
    assert both.weights.tolist() == [2.0]
    solar = pr.SolarI(limit=0.25)
    solar.learn_one([[1.0], [0.0]], [1, 0])
    solar.learn_one([[2.0], [0.0]], [1, 0])  # loss 1 - 0.5, squared length 4
    assert solar.weights.tolist() == [0.25 + 2 * 0.125]
    second = pr.SolarII(1.0)
    second.learn_one([[1.0], [0.0]], [1, 0])
    second.learn_one([[1.0], [0.0]], [1, 0])  # loss 1/2, S = 1/2, b = 2/3
    assert second.weights.tolist() == pytest.approx([1 / 2 + 1 / 2 * 2 / 3 * 1 / 2])
    assert second.covariance_.tolist() == pytest.approx([1 / 2 - 2 / 3 / 4])
    auc = pr.Opauc(0.5)
    auc.learn_one([[1.0]], [1])
    auc.learn_one([[0.0]], [0])  # apart 1, loss 1
    assert auc.weights.tolist() == [0.5]
    auc.learn_one([[3.0]], [1])  # against the mean 0 of one document: 3, of lead 1.5
    assert auc.weights.tolist() == [0.5 + 0.5 * (3 - 3 * 1.5)]
    buffered = pr.BufferedPairwise(0.5)
    buffered.learn_one([[1.0]], [1])
    buffered.learn_one([[0.0]], [0])
    buffered.learn_one([[2.0]], [1])  # against the 0: apart 2, lead 1, which is the margin
    assert buffered.weights.tolist() == [0.5]


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (pr.PRank, {"n_grades": 1}),
        (pr.MarginPRank, {"n_grades": 1}),
        (pr.MarginPRank, {"margin": -1.0}),
        (pr.OapBpm, {"n_members": 0}),
        (pr.OapBpm, {"share": 0}),
        (pr.OapBpm, {"share": 1.5}),
        (pr.OapBpm, {"seed": -1}),
        (pr.Opauc, {"decay": -1}),
        (pr.BufferedPairwise, {"buffer_size": 0}),
        (pr.BufferedPairwise, {"margin": 0}),
        (pr.SolarI, {"limit": 0}),
        (pr.SolarII, {"regularization": -1}),
        (pr.SolarII, {"covariance": "none"}),
    ],
)
def test_wrong_settings(kind, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        kind(**wrong)


def test_what_does_not_fit_is_said_before_it_starts(monkeypatch):
    monkeypatch.setattr("perceptrank.stream.memory.free_memory", lambda: 1000.0)
    stream = pr.separable(3, n_features=50).stream
    rivals = pr.PRank(10**13), pr.OapBpm(10**12), pr.CommitteePerceptron(10**13)
    for learner in (pr.SolarII(covariance="full"), pr.Opauc(), pr.OnlineRidge(), pr.BufferedPairwise(), *rivals):
        with pytest.raises(MemoryError, match="GB of memory"):
            learner.learn(stream)
        assert learner.n_queries == 0
    pr.SolarII().learn(stream)


@pytest.mark.kernel
@given(stream=streams(max_queries=8), members=st.integers(1, 4), seed=st.integers(0, 99))
def test_the_committee(stream, members, seed):
    """A list of the hypotheses that were right longest; equal ones stay, and the first of the worst goes."""
    learner = pr.CommitteePerceptron(members, learning_rate=0.5, seed=seed)
    trace = learner.learn(stream, "ndcg")
    w, right = np.zeros(stream.n_features), 0
    committee = [(0, np.zeros(stream.n_features))] * members

    def mean():
        whole = right + sum(count for count, _ in committee)
        return (right * w + sum(count * one for count, one in committee)) / whole if whole else w

    for number, query in enumerate(stream):
        value = pr.NDCG()(query.X.astype(float) @ mean(), query.relevance) if query.relevance.any() else np.nan
        if not np.isclose(value, trace.values("ndcg")[number], equal_nan=True):
            scores = np.sort(query.X.astype(float) @ mean())
            assert np.diff(scores).min() < 1e-9  # scores that differ by rounding only
        pairs = list(pairs_of(query))
        for p in range(len(pairs)):
            chosen = p + int(noise(seed, number, p) * (len(pairs) - p))
            pairs[p], pairs[chosen] = pairs[chosen], pairs[p]
            if w @ pairs[p] > 0:
                right += 1
                continue
            least = min(range(members), key=lambda place: committee[place][0])
            if right > committee[least][0]:
                committee[least] = (right, w)
            w, right = w + 0.5 * pairs[p], 0
    np.testing.assert_allclose(learner.weights, w, atol=1e-8)
    np.testing.assert_allclose(learner.coef_, mean(), atol=1e-8)


def test_the_committee_by_hand():
    committee = pr.CommitteePerceptron(2)
    committee.learn_one([[1.0], [0.0]], [1, 0])  # 0 is wrong; w = 1
    committee.learn_one([[1.0], [0.0]], [1, 0])  # right once
    committee.learn_one([[0.0], [3.0]], [1, 0])  # wrong: w = 1 joins with 1 success, w = -2
    assert committee.weights.tolist() == [-2.0]
    assert committee.coef_.tolist() == [1.0]
    committee.learn_one([[0.0], [1.0]], [1, 0])  # -2 is right once: the mean of 1 and -2
    assert committee.coef_.tolist() == [-0.5]


def test_opauc_refuses_what_would_ruin_its_moments():
    learner = pr.Opauc()
    learner.learn_one(np.eye(3), [1, 0, 0])
    before = learner.as_document()
    with pytest.raises(ValueError, match="overflow"):
        learner.learn_one(np.eye(3) * 1e200, [0, 0, 0])
    assert learner.as_document() == before


@pytest.mark.parametrize("kind", [pr.OapBpm, pr.CommitteePerceptron, pr.BufferedPairwise])
def test_seeds_of_any_size_that_is_allowed(kind):
    kind(seed=2**63 - 1).learn(pr.separable(3).stream)
    with pytest.raises(ValueError, match="seed"):
        kind(seed=2**63)


def test_a_file_of_absurd_size_is_refused(tmp_path):
    learner = pr.PRank()
    learner.learn(pr.separable(3).stream)
    learner.save(tmp_path / "model.json")
    text = (tmp_path / "model.json").read_text().replace('"n_grades": 5', '"n_grades": 10000000000000')
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(ValueError, match="damaged"):
        pr.load(tmp_path / "model.json")
