"""Values of rankers from logged clicks: fair preferences, and importance-weighted clicks.

Each impression is read by its own policy: swaps of ``fair-pairs`` and ``shuffle``, the draws of ``plackett-luce``, or
the logged propensities of others.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from perceptrank.clicks.policies import DRAWN, KINDS, NONE, OTHER, PAIRS, SHUFFLED, UNIFORM, policy_kinds
from perceptrank.evaluation.bootstrap import FEWEST_QUERIES
from perceptrank.kernels.arrays import Bools, Floats, Ints
from perceptrank.measures.of_clicks import RAREST_ORDER, ClickMeasure, ExpectedClicks, TeamDraft
from perceptrank.stream.columns import CLICKED, PLACE
from perceptrank.stream.query_stream import QueryStream, missing_columns

_ROUNDING = 1e-6
_MOST_ERRORS = 4.0  # standard errors that a mean weight may be off 1


class _Shown(NamedTuple):
    """Documents shown, by impression and place; and the kind and number of each impression's policy."""

    query: Ints
    row: Ints
    place: Ints
    propensity: Floats
    kind: Ints
    number: Ints


def _shown(block: QueryStream) -> _Shown:
    places = np.asarray(block.place)
    query = np.repeat(np.arange(len(block)), np.diff(block.offsets))
    rows = np.flatnonzero(places > 0)
    rows = rows[np.lexsort((places[rows], query[rows]))]
    propensity = np.full(len(query), np.nan) if block.propensity is None else block.propensity
    return _Shown(query[rows], rows, places[rows].astype(np.int64), propensity[rows], *policy_kinds(block))


def agreed_preferences(block: QueryStream, clicked: Floats, scores: Floats, *, bounded: bool = False) -> Floats:
    """Return the value of `FairPreferences` for each impression; NaN without a pair whose order was random.

    If `bounded`, values are from 0 to 1: pairs count as much as they are random, 2 min(p, 1 - p), and so do rare ones.
    """
    shown = _shown(block)
    chance = _order_chances(shown)
    rarest = 0.0 if bounded else RAREST_ORDER - _ROUNDING
    chosen = np.flatnonzero(np.abs(chance - 0.5) < 0.5 - rarest)
    above, below, query = shown.row[chosen], shown.row[chosen + 1], shown.query[chosen]
    more = clicked[above] - clicked[below]
    agrees = (scores[above] > scores[below]).astype(float) - (scores[above] < scores[below])
    unit = np.minimum(chance, 1 - chance)[chosen] if bounded else 0.5
    credit = (np.abs(more) + more * agrees) / 2 * unit / chance[chosen]
    # Pairs that are rarely in one order count 0: how many there are may depend on the order of another pair.
    n_pairs = np.bincount(shown.query[:-1][~np.isnan(chance)], minlength=len(block))
    is_known = np.bincount(query, minlength=len(block)) > 0
    return np.where(is_known, np.bincount(query, credit, len(block)) / np.maximum(n_pairs, 1), np.nan)


def neighbour_clicks(block: QueryStream, n_places: int) -> tuple[Floats, Floats]:
    """Return the clicks on the upper and on the lower of neighbours whose order was random, by the upper's place.

    Both orders of two neighbours count alike: if users follow the position-based model, the ratio is that of
    examination.
    """
    shown = _shown(block)
    chance, clicked = _order_chances(shown), np.asarray(block.clicked)
    chosen = np.flatnonzero((np.abs(chance - 0.5) < 0.5) & (shown.place[:-1] <= n_places))
    weight = np.minimum(chance, 1 - chance)[chosen] / chance[chosen]
    rows, places = (shown.row[chosen], shown.row[chosen + 1]), shown.place[chosen] - 1
    upper, lower = (np.bincount(places, weight * clicked[row], n_places).astype(np.float64) for row in rows)
    return upper, lower


def _order_chances(shown: _Shown) -> Floats:
    """Return the probability of the order of each document and the next one, given all else; NaN if not random."""
    place, p, q = shown.place[:-1], shown.propensity[:-1], shown.propensity[1:]
    kind, number = shown.kind[shown.query[:-1]], shown.number[shown.query[:-1]]
    are_neighbours = (shown.query[1:] == shown.query[:-1]) & (shown.place[1:] == place + 1)
    is_pair = (place >= number) & ((place - number) % 2 == 0)
    is_shuffled = (place < number) & ~(p >= 1) & ~(q >= 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Of two neighbours drawn one after the other, the second could have come first: with q (1 - p), and then the
        # first with p / (1 - q (1 - p)).
        drawn = 1 / (1 + (1 - p) / (1 - q * (1 - p)))
    swapped = np.where(is_pair, np.where(np.isnan(p), 0.5, p), np.nan)
    orders = [swapped, np.where(is_shuffled, 0.5, np.nan), drawn]
    return np.select([are_neighbours & (kind == code) for code in (PAIRS, SHUFFLED, DRAWN)], orders, np.nan)


def weigh_places(block: QueryStream, clicked: Floats, scores: Floats, n_places: int) -> tuple[Floats, ...]:
    """Return, by impression and place, weights, credits of guesses, clicks, and 1 for what is used."""
    shown, n = _shown(block), len(block)
    kind, number = shown.kind[shown.query], shown.number[shown.query]
    is_drawn = (shown.kind == DRAWN) | (shown.kind == UNIFORM)
    # Documents compete within pools, which are named by their first place: a shuffle, or the whole list.
    first = shown.place - 1
    first[(kind > SHUFFLED) | ((kind == SHUFFLED) & (shown.place <= number))] = 0
    start = np.full(block.n_documents, -1)
    start[shown.row] = first
    query = np.repeat(np.arange(n), np.diff(block.offsets))
    start[(start < 0) & (shown.kind[query] > SHUFFLED)] = 0
    pool = query * (int(shown.place.max(initial=0)) + 1) + start
    greater, tied, size = (counts[shown.row] for counts in _ranks(pool, scores, start >= 0))
    at = shown.place - 1 - first
    left = np.where(is_drawn[shown.query], greater + tied - at, tied)
    chance = np.where(np.isnan(shown.propensity) & (kind <= SHUFFLED), 1 / np.maximum(size, 1), shown.propensity)
    ratio = np.where((greater <= at) & (at < greater + tied), 1 / np.maximum(left, 1), 0.0) / chance

    lengths = np.bincount(shown.query, minlength=n)
    is_random = np.bincount(shown.query, shown.propensity < 1, n) > 0
    bad = shown.place > lengths[shown.query]  # a place above has no document
    bad |= np.isnan(ratio) & (shown.place <= n_places)
    bad |= (kind == SHUFFLED) & (shown.place <= number) & ~(np.abs(chance * size - 1) < _ROUNDING)
    # The last of all candidates is certain: if it is not, the log lacks those that were not shown.
    is_last = shown.place == np.diff(block.offsets)[shown.query]
    bad |= is_drawn[shown.query] & is_last & (shown.propensity < 1 - _ROUNDING)
    # Swaps of neighbours say too little about another list: users who stop see more where the better one is lower.
    usable = ((shown.kind < NONE) & (shown.kind != PAIRS)) | ((shown.kind == OTHER) & is_random)
    usable &= np.bincount(shown.query, bad, n) == 0

    width = min(n_places, int(shown.place.max(initial=1)))
    counted = np.flatnonzero(usable[shown.query] & (shown.place <= width))
    where = shown.query[counted], shown.place[counted] - 1
    ratios, clicks, present = np.zeros((3, n, width))
    ratios[where], clicks[where], present[where] = ratio[counted], clicked[shown.row[counted]], 1.0
    products = np.cumprod(ratios, axis=1)
    before = present * np.column_stack([np.ones(n), products[:, :-1]])
    of_list = is_drawn[:, None]
    return np.where(of_list, products, ratios), np.where(of_list, before, present), clicks, present


def _ranks(pool: Ints, scores: Floats, counted: Bools) -> tuple[Ints, Ints, Ints]:
    """Return how many documents of its pool have a greater score than each, how many the same, and how many are in."""
    start = pool * len(pool)
    keys = start + np.unique(-scores, return_inverse=True)[1]
    ordered = np.sort(keys[counted])
    ends = (start, keys, keys + 1, start + len(pool))
    first, greater, tied, last = (np.searchsorted(ordered, end) for end in ends)
    return greater - first, tied - greater, last - first


class ClickValues:
    """Values of one ranker's lists in measures of clicks, block by block."""

    def __init__(self, *, is_challenger: bool) -> None:
        self._is_challenger = is_challenger
        self._sums: dict[ExpectedClicks, Floats] = {}  # of w, w², w c and 1, by place

    def values(self, measure: ClickMeasure, block: QueryStream, scores: Floats) -> Floats:
        """Return one value per impression of the next block; NaN where its policy does not tell."""
        if block.clicked is None or block.place is None:
            raise missing_columns(block, str(measure), (PLACE, CLICKED))
        if isinstance(measure, TeamDraft):
            raise ValueError("team-draft compares challengers in the service; for a log, use preferences or clicks@k")
        if not isinstance(measure, ExpectedClicks):
            return agreed_preferences(block, block.clicked, scores)
        weights, credit, clicked, present = weigh_places(block, block.clicked, scores, measure.n_places)
        sums = self._sums.setdefault(measure, np.zeros((4, measure.n_places)))
        terms = np.stack([weights, weights**2, weights * clicked, present])
        width = weights.shape[1]
        before = np.cumsum(terms[[0, 2]], axis=1) - terms[[0, 2]] + sums[[0, 2], None, :width]
        sums[:, :width] += terms.sum(axis=1)
        guess = before[1] / np.where(before[0] > 0, before[0], np.inf)
        if measure.clip:
            guess = np.zeros_like(guess)
            weights = np.minimum(weights, measure.clip) if self._is_challenger else weights
        estimates = (weights * (clicked - guess) + credit * guess).sum(axis=1)
        return np.where(present.any(axis=1), estimates, np.nan)

    def check(self, name: str) -> None:
        """Raise if the log has shown too little of what the ranker would show."""
        for measure, sums in self._sums.items():
            if measure.clip and self._is_challenger:
                continue  # what is not seen counts 0
            total, squares, _, n = sums[:, sums[3] > 0]
            worth = total**2 / np.where(squares > 0, squares, 1.0)
            error = np.sqrt(np.maximum(squares / n - (total / n) ** 2, 0.0) / n)
            is_off = np.abs(total / n - 1) > _MOST_ERRORS * error + _ROUNDING
            for j in np.flatnonzero((worth < FEWEST_QUERIES) | is_off)[:1].tolist():
                advice = f"; {measure.name}@{j} would do" if j else ""
                raise ValueError(
                    f"{measure}: the log does not show enough of what {name or 'the ranker'} would show: at place "
                    f"{j + 1} its impressions are worth {worth[j]:.1f} ({FEWEST_QUERIES} are needed), with a mean "
                    f"weight of {total[j] / n[j]:.2f} (1 if the policy can show all that the ranker can){advice}. "
                    "`preferences` needs less"
                )


def count_policies(kind: Ints, used: Bools) -> dict[str, tuple[int, int]]:
    """Return how many impressions of each kind of policy are used, and how many are not."""
    counts = [np.bincount(kind[chosen], minlength=len(KINDS)).tolist() for chosen in (used, ~used)]
    return {name: pair for name, pair in zip(KINDS, zip(*counts, strict=True), strict=True) if any(pair)}


def describe_policies(policies: Mapping[str, tuple[int, int]]) -> str:
    """Say how many impressions of each policy are used, and how many are not."""
    parts = [[f"{n[i]:,} of {name}" for name, n in policies.items() if n[i]] for i in range(2)]
    words = zip(("used", "not used"), parts, strict=True)
    return "impressions " + "; ".join(f"{word}: {', '.join(own)}" for word, own in words if own)


def refusal(measure: ClickMeasure, policies: Mapping[str, tuple[int, int]]) -> ValueError:
    """Return the error for a log that tells nothing about a measure."""
    used = f"; {describe_policies(policies)}" if policies else ""
    advice = ""
    if isinstance(measure, ExpectedClicks) and "fair-pairs" in policies:
        advice = "Swaps of neighbours are for the measure preferences. "
    elif "uniform" in policies:
        advice = "Lists that are random now and then are for the measure clicks@1. "
    elif "plackett-luce" in policies or "shuffle" in policies:
        advice = "The column propensity must have the probabilities of what was shown. "
    elif "other" in policies and not isinstance(measure, ExpectedClicks):
        advice = "If the column propensity has the probabilities of your policy, use the measure clicks@3. "
    return ValueError(
        f"{measure} cannot be estimated from this log{used}. {advice}Clicks on lists that are not randomised do not "
        "tell how another ranking would do. Randomise a little and log the policy, as pr.clicks.FairPairs does; or "
        "turn the clicks into grades ('perceptrank judge') and evaluate with those"
    )
