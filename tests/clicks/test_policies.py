"""Exploration policies: every order has its probability, and the log says what was shown with which propensity."""

from collections import defaultdict
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perceptrank as pr

clicks = pr.clicks
POLICIES = [
    clicks.NoExploration(),
    clicks.FairPairs(),
    clicks.FairPairs(0.2),
    clicks.PlackettLuce(),
    clicks.PlackettLuce(0.1),
    clicks.Shuffle(1),
    clicks.Shuffle(3),
    clicks.Shuffle(9),
    clicks.Uniform(0.3),
    clicks.Uniform(1.0),
]


class Scripted(np.random.Generator):
    """A generator that gives the numbers of a script."""

    def __init__(self, numbers):
        super().__init__(np.random.PCG64(0))
        self.numbers = np.ravel(numbers)

    def random(self, size):
        numbers, self.numbers = self.numbers[:size], self.numbers[size:]
        return numbers


def joint(shown):
    """Share of each (policy text, order) among lists, and the propensities that were logged with it."""
    shares, logged = defaultdict(float), {}
    for order, propensity, text in zip(shown.order.tolist(), shown.propensity.tolist(), shown.policy, strict=True):
        shares[str(text), tuple(order)] += 1 / len(shown.order)
        assert logged.setdefault((str(text), tuple(order)), propensity) == propensity
    return shares, logged


def conditional(shares, text, document, place):
    """Probability that a document is at a place, given the text."""
    alike = {order: p for (other, order), p in shares.items() if other == text}
    return sum(p for order, p in alike.items() if order[place] == document) / sum(alike.values())


@pytest.mark.parametrize("swap", [0.0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize(("m", "n"), [(1, 3), (2, 2), (3, 3), (4, 4), (5, 5), (6, 5), (6, 2)])
def test_fair_pairs_are_swapped_as_said(m, n, swap):
    length = min(m, n)
    scores = -np.arange(m, dtype=float)
    coins = list(product((0.125, 0.375, 0.625, 0.875), repeat=1 + length // 2))
    shares, logged = joint(clicks.FairPairs(swap).show(np.tile(scores, (len(coins), 1)), n, Scripted(coins)))
    expected = defaultdict(float)
    for first in (1, 2):
        pairs = [(k, k + 1) for k in range(first, length, 2)]
        for swaps in product((False, True), repeat=len(pairs)):
            order, p = list(range(length)), 0.5
            for (upper, lower), is_swapped in zip(pairs, swaps, strict=True):
                p *= swap if is_swapped else 1 - swap
                if is_swapped:
                    order[upper - 1], order[lower - 1] = order[lower - 1], order[upper - 1]
            expected[f"fair-pairs:{first}", tuple(order)] += p
    assert shares == pytest.approx({key: p for key, p in expected.items() if p})
    for (text, order), propensities in logged.items():
        exact = [conditional(shares, text, document, place) for place, document in enumerate(order)]
        assert propensities == pytest.approx(exact)


def test_both_ways_to_pair_are_equally_likely():
    shown = clicks.FairPairs().show([[1.0], [1.0]], 1, Scripted([np.nextafter(0.5, 0), 0.5]))
    assert shown.policy.tolist() == ["fair-pairs:1", "fair-pairs:2"]


@pytest.mark.parametrize(("k", "n"), [(1, 4), (3, 4), (3, 2), (4, 4), (9, 4), (2, 9)])
def test_the_best_are_shuffled_uniformly(k, n):
    shuffled = min(k, 4)
    keys = list(permutations(np.linspace(0.1, 0.9, shuffled)))
    shares, logged = joint(clicks.Shuffle(k).show(np.tile([4.0, 3, 2, 1], (len(keys), 1)), n, Scripted(keys)))
    expected = defaultdict(float)
    for head in permutations(range(shuffled)):
        expected[f"shuffle:{k}", (*head, *range(shuffled, 4))[:n]] += 1 / len(keys)
    assert shares == pytest.approx(expected)
    for (text, order), propensities in logged.items():
        exact = [conditional(shares, text, document, place) for place, document in enumerate(order)]
        assert propensities == pytest.approx(exact)


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 2), (4, 4), (4, 2), (3, 9)])
def test_lists_are_random_now_and_then(m, n, share):
    draws = [(coin, *keys) for coin in (0.125, 0.375, 0.625, 0.875) for keys in permutations(np.linspace(0.1, 0.9, m))]
    scores = -np.arange(m, dtype=float)
    shares, logged = joint(clicks.Uniform(share).show(np.tile(scores, (len(draws), 1)), n, Scripted(draws)))
    random_lists = list(permutations(range(m), min(m, n)))
    expected = defaultdict(float, {(f"uniform:{share}", tuple(range(min(m, n)))): 1 - share})
    for order in random_lists:
        expected[f"uniform:{share}", order] += share / len(random_lists)
    assert shares == pytest.approx({key: p for key, p in expected.items() if p})
    for (_, order), propensities in logged.items():  # their product is the probability of the first documents
        for place in range(len(order)):
            prefix = sum(p for (_, other), p in shares.items() if other[: place + 1] == order[: place + 1])
            assert np.prod(propensities[: place + 1]) == pytest.approx(prefix)


def draw_probabilities(scores, order, temperature):
    """Probability of each document of an order among those that are not above it."""
    weights = np.exp(np.asarray(scores) / temperature)
    return [
        weights[d] / weights[[i for i in range(len(scores)) if i not in order[:k]]].sum() for k, d in enumerate(order)
    ]


def test_plackett_luce_draws_in_proportion():
    scores, temperature, n_lists = [0.3, -0.2, 0.9, 0.0], 0.7, 30_000
    shares, logged = joint(
        clicks.PlackettLuce(temperature).show(np.tile(scores, (n_lists, 1)), 2, np.random.default_rng(0))
    )
    for order in permutations(range(4), 2):
        chances = draw_probabilities(scores, order, temperature)
        p = np.prod(chances)
        assert shares["plackett-luce:0.7", order] == pytest.approx(p, abs=5 * np.sqrt(p / n_lists))
        assert logged["plackett-luce:0.7", order] == pytest.approx(chances)


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=6), st.floats(0.1, 100), st.integers(1, 8), st.integers(0, 99))
def test_propensities_of_plackett_luce(scores, temperature, n, seed):
    shown = clicks.PlackettLuce(temperature).show(scores, n, np.random.default_rng(seed))
    assert len(set(shown.order)) == len(shown.order) == min(n, len(scores))
    np.testing.assert_allclose(shown.propensity, draw_probabilities(scores, list(shown.order), temperature), rtol=1e-9)


def test_plackett_luce_at_extremes():
    rng = np.random.default_rng(0)
    scores = [0.0, 1e300, -1e300, 5.0]
    shown = clicks.PlackettLuce(1e-3).show(scores, 4, rng)
    assert shown.order.tolist() == [1, 3, 0, 2]
    np.testing.assert_allclose(shown.propensity, 1.0)
    np.testing.assert_allclose(clicks.PlackettLuce(1e300).show([5, 1e9], 2, rng).propensity, [0.5, 1])
    with pytest.raises(ValueError, match=r"temperature must be greater: .* got 1e-10"):
        clicks.PlackettLuce(1e-10).show(scores, 4, rng)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("n", [1, 3, 7])
def test_lists_together_are_the_same_as_one_after_the_other(policy, n):
    lengths = [3, 1, 0, 5, 2, 5, 4]
    rng = np.random.default_rng(3)
    scores = np.where(np.arange(5) < np.array(lengths)[:, None], rng.integers(0, 4, (7, 5)), np.nan)
    together, alone = np.random.default_rng(1), np.random.default_rng(1)
    shown = policy.show(scores, n, together)
    assert shown.order.shape == (7, min(n, 5))
    for row, m in enumerate(lengths):
        order, propensity, text = policy.show(scores[row, :m], n, alone)
        assert shown.order[row].tolist() == [*order, *[-1] * (min(n, 5) - min(n, m))]
        np.testing.assert_array_equal(shown.propensity[row, : min(n, m)], propensity)
        assert np.isnan(shown.propensity[row, min(n, m) :]).all()
        assert shown.policy[row] == text
        assert isinstance(text, str)
    assert together.random() == alone.random()


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.sampled_from(POLICIES), st.integers(1, 9))
def test_documents_are_shown_once_with_a_propensity(scores, policy, n):
    order, propensity, text = policy.show(scores, n, np.random.default_rng(0))
    assert len(set(order)) == len(order) == min(n, len(scores))
    assert ((propensity > 0) & (propensity <= 1)).all()
    if text == "none":
        assert order.tolist() == sorted(range(len(scores)), key=lambda i: -scores[i])[:n]
        assert (propensity == 1).all()


def test_policies_by_name():
    names = ["none", "fair-pairs", "plackett-luce", "plackett-luce:0.5", "shuffle:3", "uniform:0.2"]
    expected = [clicks.NoExploration(), clicks.FairPairs(0.5), clicks.PlackettLuce(1.0), clicks.PlackettLuce(0.5)]
    assert [clicks.policy(name) for name in names] == [*expected, clicks.Shuffle(3), clicks.Uniform(0.2)]
    assert clicks.policy(expected[3]) is expected[3]


@pytest.mark.parametrize(
    "name", ["", "random", "none:1", "fair-pairs:1", "shuffle", "shuffle:x", "plackett-luce:", "uniform", 3]
)
def test_unknown_policies(name):
    with pytest.raises(ValueError, match=r"policy must be none, fair-pairs, .* got"):
        clicks.policy(name)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: clicks.FairPairs(1.5), "swap must be a probability, got 1.5"),
        (lambda: clicks.policy("plackett-luce:0"), "temperature must be a number > 0, got 0.0"),
        (lambda: clicks.policy("plackett-luce:nan"), "temperature must be a number > 0, got nan"),
        (lambda: clicks.policy("uniform:1.5"), "share must be a probability, got 1.5"),
        (lambda: clicks.policy("shuffle:0"), "k must be a whole number > 0, got 0"),
        (lambda: clicks.FairPairs().show([1.0], 0, np.random.default_rng(0)), "n must be a whole number > 0, got 0"),
        (lambda: clicks.FairPairs().show([np.inf], 1, np.random.default_rng(0)), "scores must be finite"),
    ],
)
def test_what_is_wrong_is_said(call, message):
    with pytest.raises(ValueError, match=message):
        call()
