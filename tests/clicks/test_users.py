"""Simulated users against their definitions, with every outcome of every coin enumerated."""

import pickle
from collections import defaultdict
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perceptrank as pr

clicks = pr.clicks
STORED = {  # click, stop: Oosterhuis & de Rijke 2018, Table 1, and their code
    ("perfect", 5): ([0, 0.2, 0.4, 0.8, 1], [0] * 5),
    ("navigational", 5): ([0.05, 0.3, 0.5, 0.7, 0.95], [0.2, 0.3, 0.5, 0.7, 0.9]),
    ("informational", 5): ([0.4, 0.6, 0.7, 0.8, 0.9], [0.1, 0.2, 0.3, 0.4, 0.5]),
    ("almost-random", 5): ([0.4, 0.45, 0.5, 0.55, 0.6], [0.5] * 5),
    ("perfect", 3): ([0, 0.5, 1], [0] * 3),
    ("navigational", 3): ([0.05, 0.5, 0.95], [0.2, 0.5, 0.9]),
    ("informational", 3): ([0.4, 0.7, 0.9], [0.1, 0.3, 0.5]),
    ("almost-random", 3): ([0.4, 0.5, 0.6], [0.5] * 3),
}


def outcomes(story, grades):
    """Probabilities of (clicked, examined): the story is told once for every outcome of the coins that it tosses."""
    found = defaultdict(float)
    waiting = [[]]
    while waiting:
        script, weights = waiting.pop(), []

        def toss(p, script=script, weights=weights):
            i = len(weights)
            if i == len(script):
                waiting.append([*script, False])
                script.append(True)
            weights.append(p if script[i] else 1 - p)
            return script[i]

        told = story(toss, grades)
        found[told] += np.prod(weights)
    return {told: p for told, p in found.items() if p > 0}


def marginal(joint, part, n):
    return [sum(p for told, p in joint.items() if told[part][k]) for k in range(n)]


def cascade_story(click, stop, after):
    def story(toss, grades):
        clicked, examined, reading = [], [], True
        for grade in grades:
            examined.append(reading)
            clicked.append(reading and toss(click[grade]))
            if reading and (clicked[-1] or after == "any"):
                reading = not toss(stop[grade])
        return tuple(clicked), tuple(examined)

    return story


def dbn_story(attraction, satisfaction, continuation):
    def story(toss, grades):
        clicked, examined, reading = [], [], True
        for grade in grades:
            examined.append(reading)
            clicked.append(reading and toss(attraction[grade]))
            satisfied = clicked[-1] and toss(satisfaction[grade])
            reading = reading and not satisfied and toss(continuation)
        return tuple(clicked), tuple(examined)

    return story


def trust_story(examination, trust, mistake, attraction):
    def story(toss, grades):
        clicked, examined = [], []
        for k, grade in enumerate(grades):
            examined.append(toss(examination[k]))
            relevant = toss(attraction[grade])
            clicked.append(examined[-1] and toss(trust[k] if relevant else mistake[k]))
        return tuple(clicked), tuple(examined)

    return story


def ubm_story(examination, attraction):
    def story(toss, grades):
        clicked, examined, last = [], [], 0
        for k, grade in enumerate(grades, start=1):
            examined.append(toss(examination[k - 1][last]))
            clicked.append(examined[-1] and toss(attraction[grade]))
            last = k if clicked[-1] else last
        return tuple(clicked), tuple(examined)

    return story


def contrary_story(toss, grades):
    first = grades.index(min(grades))
    return tuple(k == first for k in range(len(grades))), (True,) * len(grades)


def only_place_story(place):
    def story(toss, grades):
        clicked = tuple(k == place for k in range(1, len(grades) + 1))
        return clicked, clicked

    return story


def corrupted_story(inner, share):
    def story(toss, grades):
        clicked, examined = inner(toss, grades)
        recorded = tuple(click ^ toss(share) for click in clicked)
        return recorded, tuple(a or b for a, b in zip(examined, recorded, strict=True))

    return story


def mixture_story(stories, shares):
    def story(toss, grades):
        left = 1.0
        for inner, share in zip(stories[:-1], shares[:-1], strict=True):
            if toss(share / left):
                return inner(toss, grades)
            left -= share
        return stories[-1](toss, grades)

    return story


def make_users(draw, n_grades, n_places):
    """Users with the story that defines them; `draw(n)` gives n probabilities."""
    click, stop, third = draw(n_grades), draw(n_grades), draw(n_grades)
    theta, trust, mistake, (share, goes_on) = draw(n_places), draw(n_places), draw(n_places), draw(2)
    browse = [draw(k) for k in range(1, n_places + 1)]
    simple = [
        (clicks.cascade(click, stop), cascade_story(click, stop, "click")),
        (clicks.cascade(click, stop, after="any"), cascade_story(click, stop, "any")),
        (clicks.dbn(click, third, continuation=goes_on), dbn_story(click, third, goes_on)),
        (
            clicks.position_based(theta, attraction=click),
            trust_story(theta, [1] * n_places, [0] * n_places, click),
        ),
        (clicks.trust_bias(theta, trust, mistake, attraction=click), trust_story(theta, trust, mistake, click)),
        (clicks.ubm(browse, attraction=click), ubm_story(browse, click)),
        (clicks.contrary(), contrary_story),
        (clicks.only_place(2), only_place_story(2)),
    ]
    made = simple + [(clicks.corrupted(user, share), corrupted_story(story, share)) for user, story in simple]
    shares = [0.25, 0.5, 0.25]
    for several in (simple[:3], simple[4:7], [made[-3], simple[0], made[8]]):
        users, stories = zip(*several, strict=True)
        made.append((clicks.mixture(users, shares), mixture_story(stories, shares)))
    users, stories = zip(made[-1], simple[6], strict=True)  # a mixture of a mixture
    made.append((clicks.mixture(users), mixture_story(stories, [0.5, 0.5])))
    return made


@given(st.data())
@settings(max_examples=25)
def test_probabilities_are_those_of_all_outcomes(data):
    share = st.floats(0, 1, allow_subnormal=False)
    grades = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=3))
    users = make_users(lambda n: data.draw(st.lists(share, min_size=n, max_size=n)), 3, 3)
    user, story = data.draw(st.sampled_from(users))
    expected = marginal(outcomes(story, grades), 0, len(grades))
    np.testing.assert_allclose(user.probabilities(grades), expected, rtol=0, atol=1e-12)


class Grid(np.random.Generator):
    """A generator whose numbers, over many lists, are all combinations of the middles of four equal intervals."""

    def __init__(self, n_coins):
        super().__init__(np.random.PCG64(0))
        self.numbers = np.array(list(product((0.125, 0.375, 0.625, 0.875), repeat=n_coins))).ravel()

    def random(self, size):
        numbers, self.numbers = self.numbers[:size], self.numbers[size:]
        return numbers


@pytest.mark.parametrize("seed", range(3))
def test_what_is_clicked_and_examined_has_exactly_its_probability(seed):
    """If every coin's probability is a multiple of a quarter, numbers from each quarter stand for all draws."""
    rng = np.random.default_rng(seed)
    grades = [1, 0]
    for user, story in make_users(lambda n: (rng.integers(0, 3, n) / 2).tolist(), 2, 2):
        n_coins = user.coins[0] + 2 * user.coins[1]
        response = user.respond([grades] * 4**n_coins, Grid(n_coins))
        told, counts = np.unique(np.hstack([response.clicked, response.examined]), axis=0, return_counts=True)
        seen = {(tuple(row[:2]), tuple(row[2:])): n / 4**n_coins for row, n in zip(told.tolist(), counts, strict=True)}
        assert seen == outcomes(story, grades), user


def test_a_user_without_a_share_is_never_drawn():
    never = clicks.mixture([clicks.contrary(), clicks.only_place(1)], [0, 1])
    draws = Grid(0)
    draws.numbers = np.array([0.0])
    assert never.click([1, 0], draws).tolist() == [1, 0]


def test_lists_together_are_the_same_as_one_after_the_other():
    rng = np.random.default_rng(1)
    lengths = [3, 1, 0, 4, 2, 4]
    grades = np.where(np.arange(4) < np.array(lengths)[:, None], rng.integers(0, 3, (6, 4)), np.nan)
    for user, _ in make_users(lambda n: rng.random(n).tolist(), 3, 4):
        together, alone = np.random.default_rng(2), np.random.default_rng(2)
        clicked, examined = user.respond(grades, together)
        for row, n in enumerate(lengths):
            response = user.respond(grades[row, :n], alone)
            assert clicked[row].tolist() == [*response.clicked, *[0] * (4 - n)]
            assert examined[row].tolist() == [*response.examined, *[0] * (4 - n)]
            np.testing.assert_array_equal(user.probabilities(grades)[row, :n], user.probabilities(grades[row, :n]))
        assert not user.probabilities(grades)[np.isnan(grades)].any()
        assert together.random() == alone.random()


def test_large_batches_do_not_depend_on_how_they_are_cut(monkeypatch):
    user = clicks.mixture([clicks.user("informational", grades=3), clicks.contrary()])
    grades = np.random.default_rng(0).integers(0, 3, (50, 3))
    whole = user.click(grades, np.random.default_rng(1))
    monkeypatch.setattr("perceptrank.clicks.users.user._PART_VALUES", 7)
    assert np.array_equal(user.click(grades, np.random.default_rng(1)), whole)
    assert 0 < whole.sum() < whole.size


@pytest.mark.parametrize("stop", ["click", "any"])
@pytest.mark.parametrize(("name", "grades"), STORED)
def test_users_of_the_literature(name, grades, stop):
    click, leave = STORED[name, grades]
    shown = [grades - 1, 0, 1]
    expected = marginal(outcomes(cascade_story(click, leave, stop), shown), 0, 3)
    np.testing.assert_allclose(clicks.user(name, grades=grades, stop=stop).probabilities(shown), expected, atol=1e-15)


def test_published_properties():
    """A position-based click rate is theta times a; a perfect user sees all; a cascade has at most one click."""
    theta, a = np.array([1, 0.6, 0.4, 0.3]), np.array([0.1, 0.5, 0.9])
    grades = np.array([[2, 0, 1, 1], [0, 1, 2, 0]])
    expected = theta * a[grades]
    assert np.array_equal(clicks.position_based(theta, attraction=a).probabilities(grades), expected)
    default = clicks.position_based([1.0]).probabilities([[0], [4]])
    np.testing.assert_allclose(default[:, 0], [0.1, 1.0])
    rng = np.random.default_rng(3)
    lists = rng.integers(0, 5, (1000, 6))
    perfect = clicks.user("perfect").respond(lists, rng)
    assert perfect.examined.all()
    assert not perfect.clicked[lists == 0].any()
    assert perfect.clicked[lists == 4].all()
    first = clicks.cascade([0.5, 0.5], [1, 1]).respond(np.ones((1000, 6)), rng)
    assert first.clicked.sum(axis=1).max() == 1
    # Craswell et al. 2008: P(click at k) = a (1 - a)^(k - 1)
    np.testing.assert_allclose(clicks.cascade([0.3], [1]).probabilities(np.zeros(5)), 0.3 * 0.7 ** np.arange(5))


def test_rates_of_many_lists_are_near_their_probabilities():
    rng = np.random.default_rng(4)
    grades = [2, 0, 1, 2]
    for user, _ in make_users(lambda n: rng.random(n).tolist(), 3, 4):
        p, n = user.probabilities(grades), 20_000
        rates = user.click(np.tile(grades, (n, 1)), rng).mean(axis=0)
        assert (np.abs(rates - p) <= 5 * np.sqrt(p * (1 - p) / n) + 1e-12).all(), user


def test_users_are_values():
    rng = np.random.default_rng(6)
    for user, _ in make_users(lambda n: rng.random(n).tolist(), 3, 4):
        assert pickle.loads(pickle.dumps(user)) == user
    assert clicks.user("perfect") == clicks.user("perfect") != clicks.user("navigational")
    assert clicks.user("perfect").click([], rng).shape == (0,)
    assert clicks.contrary().click(np.empty((3, 0)), rng).shape == (3, 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: clicks.user("lazy"), r"name must be one of 'perfect', .*, got 'lazy'"),
        (lambda: clicks.user("perfect", grades=4), r"grades must be 5, 3 or 2.*cascade\(\).*got 4"),
        (lambda: clicks.user("perfect", stop="never"), r"stop must be one of 'click', 'any', got 'never'"),
        (lambda: clicks.cascade([0.5, 1.5], [0, 0]), r"click must be probabilities, which number 2 is not, got 1.5"),
        (lambda: clicks.cascade([0.5], [0, 0]), r"stop must have as many probabilities as click \(1\), got"),
        (lambda: clicks.position_based([]), r"examination must be a list of probabilities, got \[\]"),
        (lambda: clicks.position_based([np.nan]), r"examination must be probabilities, which number 1 is not, got nan"),
        (lambda: clicks.trust_bias([1, 1], [1], [0, 0]), r"trust must have as many probabilities as examination \(2\)"),
        (lambda: clicks.ubm([[1], [1]]), r"examination\[1\] must have 2 probabilities, got \[1.0\]"),
        (lambda: clicks.ubm([]), r"examination must have a row for each place"),
        (lambda: clicks.mixture([]), r"users must have at least one user"),
        (lambda: clicks.mixture([clicks.contrary(), 3]), r"users\[1\] must be a user"),
        (lambda: clicks.mixture([clicks.contrary()], [0.5]), r"shares must be 1 probabilities that add up to 1"),
        (lambda: clicks.corrupted(clicks.contrary(), -1), r"share must be a probability, got -1"),
        (lambda: clicks.only_place(0), r"place must be a whole number > 0, got 0"),
        (lambda: clicks.user("perfect").probabilities([0, 5]), r"grades must be whole numbers from 0 to 4 .* place 2"),
        (lambda: clicks.user("perfect").probabilities([0.5]), r"grades must be whole numbers .* got 0.5 at place 1"),
        (lambda: clicks.user("perfect").probabilities([[np.nan, 1]]), r"NaN before a number in list 0"),
        (lambda: clicks.user("perfect").probabilities([np.inf]), r"grades must be finite"),
        (lambda: clicks.user("perfect").probabilities(1), r"grades must be a vector, or a matrix"),
        (lambda: clicks.position_based([1]).probabilities([0, 0]), r"at most 1 places.*got 2"),
    ],
)
def test_what_is_wrong_is_said(call, message):
    with pytest.raises(ValueError, match=message):
        call()
