"""Results of several learners on the same queries, and which of their differences are significant."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from perceptrank.evaluation.bootstrap import PairedIntervals, paired_intervals
from perceptrank.evaluation.trace import Trace
from perceptrank.io.atomic import write_atomically
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.measures import Measure, MeasureLike, parse
from perceptrank.stream.validation import ParameterError, check_confidence, check_positive_whole, check_seed

_POINTS = 200  # of a curve


class Standing(NamedTuple):
    """Mean of a learner, its difference to the best learner, and the learners that it beats.

    Attributes
    ----------
    name, letter : str
        Name of the learner, and its mark in tables.
    mean, low, high : float
        Mean of the measure over all orders and queries, and its confidence interval.
    behind, behind_low, behind_high : float
        Mean of the best learner minus this one's, and its confidence interval; 0 for the best learner itself.
    is_behind : bool
        The difference is significant: its whole interval is above 0.
    n_updates : int
        Number of rounds with an update, in all orders together.
    spread : float or None
        Standard deviation of the means of the orders; None if there is one order.
    per_order : tuple of float
        Mean of each order.
    beats : tuple of str
        Names of the learners that are significantly worse.
    """

    name: str
    mean: float
    low: float
    high: float
    behind: float
    behind_low: float
    behind_high: float
    is_behind: bool
    n_updates: int
    letter: str
    spread: float | None
    per_order: tuple[float, ...]
    beats: tuple[str, ...]


class PairDifference(NamedTuple):
    """Difference of two learners.

    Attributes
    ----------
    better, worse : str
        Names of the learners, by their means.
    difference, low, high : float
        Difference of the means, and its confidence interval, which holds at once with those of all other pairs.
    is_significant : bool
        The whole interval is above 0.
    """

    better: str
    worse: str
    difference: float
    low: float
    high: float
    is_significant: bool


class Comparison:
    """Results of several learners on the same queries: `compare` returns it.

    Parameters that several methods take:

    - `measure`: a recorded Measure or its name; by default the first that was recorded.
    - `on`: which queries, "test" or "progressive"; by default the held-out ones if there are any.
    - `confidence`, `n_resamples`, `seed`: confidence level of the intervals, between 0 and 1, number of bootstrap
      resamples, and their seed.
    - `path`: a file, which is written atomically; for plots, the suffix selects the format.

    Parameters
    ----------
    traces : mapping of str to Trace, or sequence of such mappings
        Trace of each learner, by name; of several orders, a mapping for each order.
    dropped : mapping of str to str, optional
        Error message of each learner that failed, by name.
    seeds : sequence of int, optional
        Seeds of the orders, if queries were shuffled: order k is that of ``stream.shuffled(seeds[k])``.
    test : sequence of mappings of str to Trace, optional
        Traces of held-out queries, after each order.
    n_queries : int, optional
        Number of queries that were learned from, if no learner has a trace of them.
    tuned : mapping of str to mapping of str to float, optional
        Means of all candidates on the validation queries, by the name of the one that was chosen.
    """

    def __init__(
        self,
        traces: Mapping[str, Trace] | Sequence[Mapping[str, Trace]],
        dropped: Mapping[str, str] | None = None,
        *,
        seeds: Sequence[int] | None = None,
        test: Sequence[Mapping[str, Trace]] | None = None,
        n_queries: int | None = None,
        tuned: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        progressive = [traces] if isinstance(traces, Mapping) else list(traces)
        self.traces, self.dropped, self.seeds = dict(progressive[0]), dict(dropped or {}), list(seeds or ())
        sets = {"test": list(test or ()), "progressive": progressive}
        self._sets = {on: orders for on, orders in sets.items() if orders and orders[0]}
        self._n_queries, self.tuned = n_queries, {name: dict(means) for name, means in (tuned or {}).items()}
        self._known: dict[Any, PairedIntervals] = {}

    def __repr__(self) -> str:
        orders = f"{len(self.seeds)} orders of " if self.seeds else ""
        test = f", {self.n_test} held out" if self.n_test else ""
        return f"Comparison({len(self.names)} learners, {orders}{self.n_queries} queries{test})"

    @property
    def names(self) -> list[str]:
        """Names of the learners."""
        return list(self._sets[self.sets[0]][0])

    @property
    def measures(self) -> list[Measure]:
        """The recorded measures; the first decides on the order of tables."""
        return next(iter(self._sets[self.sets[0]][0].values())).measures

    @property
    def sets(self) -> list[str]:
        """Names of the sets of queries: "test" if some were held out, and "progressive" if learners learned online."""
        return list(self._sets)

    @property
    def n_queries(self) -> int:
        """Number of queries that were learned from in each order."""
        return len(next(iter(self.traces.values()))) if self.traces else self._n_queries or 0

    @property
    def n_test(self) -> int:
        """Number of held-out queries, 0 if there are none."""
        return len(next(iter(self._sets["test"][0].values()))) if "test" in self._sets else 0

    @property
    def letters(self) -> dict[str, str]:
        """Letter of each learner, the best first by the first measure of the first set."""
        values, weights = self._counted(self.measures[0], self.sets[0])
        means = np.average(values, axis=1, weights=weights).reshape(len(self.names), -1).mean(axis=1)
        return {self.names[i]: _letter(place) for place, i in enumerate(np.argsort(-means, kind="stable").tolist())}

    def names_on(self, on: str | None = None) -> list[str]:
        """Return the names of the learners that have values for a set of queries."""
        return list(self._sets[self._chosen_set(on)][0])

    def n_counted(self, measure: MeasureLike, on: str) -> int:
        """Return how many queries of a set a measure counts: most leave out those without relevant documents."""
        return int(self._counted(parse(measure), on)[0].shape[1])

    def standings(
        self,
        measure: MeasureLike | None = None,
        on: str | None = None,
        *,
        confidence: float = 0.95,
        n_resamples: int = 2000,
        seed: int = 0,
    ) -> list[Standing]:
        """Rank the learners, best first, with bootstrap confidence intervals.

        Queries are resampled with replacement, the same for all learners (a paired bootstrap). The intervals of the
        differences are simultaneous: all of them cover with the given confidence, approximately, for any number of
        learners and whichever is the best. If queries have weights, means are weighted, and the number of queries is
        the squared sum of weights over the sum of squares.

        Without shuffled orders the randomness is that of the queries alone, each ranked by the learner as it was in
        that round. With them, orders are resampled too, and the intervals of differences hold for all measures at once:
        what is significant is so for new queries and new orders of this kind. Few orders do not tell how much orders
        differ (Student's t, with Bonferroni's correction for the pairs): take ten orders or more.

        Queries that the measure leaves out for any learner are ignored. With fewer than 30 queries the intervals are
        NaN and no difference is significant.
        """
        intervals = self._intervals(measure, on, confidence, n_resamples, seed)
        means, letters, names = intervals.per_order.mean(axis=1), self.letters, self.names_on(on)
        beats = means[:, None] - means > intervals.half_widths  # no number is larger than NaN
        best = int(np.argmax(means))
        behind, half_widths = means[best] - means, intervals.half_widths[best]
        by_letter = [names.index(name) for name in letters if name in names]
        return [
            Standing(
                names[i],
                float(means[i]),
                float(intervals.low[i]),
                float(intervals.high[i]),
                float(behind[i]),
                float(behind[i] - half_widths[i]),
                float(behind[i] + half_widths[i]),
                bool(behind[i] > half_widths[i]),
                sum(order[names[i]].n_updates for order in self._sets.get("progressive", ()) if names[i] in order),
                letters[names[i]],
                float(intervals.per_order[i].std(ddof=1)) if intervals.per_order.shape[1] > 1 else None,
                tuple(intervals.per_order[i].tolist()),
                tuple(names[j] for j in by_letter if beats[i, j]),
            )
            for i in np.argsort(-means, kind="stable").tolist()
        ]

    def differences(
        self,
        measure: MeasureLike | None = None,
        on: str | None = None,
        *,
        confidence: float = 0.95,
        n_resamples: int = 2000,
        seed: int = 0,
    ) -> list[PairDifference]:
        """Return the differences of all pairs of learners, with their intervals."""
        intervals = self._intervals(measure, on, confidence, n_resamples, seed)
        means, names = intervals.per_order.mean(axis=1), self.names_on(on)
        rows = []
        for i, j in combinations(np.argsort(-means, kind="stable").tolist(), 2):
            difference, half = float(means[i] - means[j]), float(intervals.half_widths[i, j])
            ends = difference - half, difference + half
            rows.append(PairDifference(names[i], names[j], difference, *ends, difference > half))
        return rows

    def _chosen_set(self, on: str | None) -> str:
        if on is not None and on not in self._sets:
            raise ParameterError("on", f"must be one of {', '.join(map(repr, self._sets))}", on)
        return self.sets[0] if on is None else on

    def _chosen_measure(self, measure: MeasureLike | None) -> Measure:
        chosen = self.measures[0] if measure is None else parse(measure)
        if chosen not in self.measures:
            raise KeyError(f"{chosen} was not recorded; {', '.join(map(str, self.measures))} were")
        return chosen

    def _intervals(
        self, measure: MeasureLike | None, on: str | None, confidence: float, n_resamples: int, seed: int
    ) -> PairedIntervals:
        on = self._chosen_set(on)
        check_confidence(confidence)
        check_positive_whole("n_resamples", n_resamples)
        check_seed(seed)
        chosen = self._chosen_measure(measure)
        key = chosen, on, confidence, n_resamples, seed
        if key not in self._known:
            sizes = len(self._sets[on]), len(self.measures) if self.seeds else 1
            self._known[key] = paired_intervals(*self._counted(chosen, on), *sizes, confidence, n_resamples, seed)
        return self._known[key]

    def _counted(self, measure: Measure, on: str) -> tuple[Floats, Floats | None]:
        """Return the values of queries that count for all learners, a row per learner and order, and their weights."""
        orders = self._sets[on]
        places: list[Any] = [slice(None)] * len(orders)
        if on == "progressive" and self.seeds:  # where the queries of the stream came in each order
            shuffled = (np.random.default_rng(seed).permutation(self.n_queries) for seed in self.seeds)
            places = [np.argsort(order) for order in shuffled]
        values = np.array(
            [
                order[name].values(measure)[place]
                for name in self.names_on(on)
                for order, place in zip(orders, places, strict=True)
            ]
        )
        weights, counted = orders[0][self.names_on(on)[0]].query_weights, ~np.isnan(values).any(axis=0)
        if weights is not None:
            weights = weights[places[0]]
            counted &= weights > 0
            weights = np.ldexp(weights[counted], -np.frexp(weights.max())[1])  # their squares are numbers
        if not counted.any():
            raise ValueError(f"no query counts for {measure}: it leaves out all of them")
        return values[:, counted], weights

    @property
    def points(self) -> Ints:
        """Numbers of queries that `curves` have a value for."""
        return np.unique(np.geomspace(1, self.n_queries, _POINTS).astype(np.int64))

    def curves(self, measure: MeasureLike | None = None) -> dict[str, Floats]:
        """Return the running means of each learner at `points`, in every order: orders x points."""
        chosen, last = self._chosen_measure(measure), self.points - 1
        orders = self._sets.get("progressive", [{}])
        return {name: np.stack([order[name].running_mean(chosen)[last] for order in orders]) for name in orders[0]}

    def as_plain(self, *, confidence: float = 0.95, seed: int = 0) -> dict[str, Any]:
        """Return everything but the values of single queries as dicts, lists, text and numbers."""
        settings: Any = {"confidence": confidence, "seed": seed}
        sets = {
            on: {
                str(measure): {
                    "standings": [row._asdict() for row in self.standings(measure, on, **settings)],
                    "differences": [row._asdict() for row in self.differences(measure, on, **settings)],
                }
                for measure in self.measures
            }
            for on in self._sets
        }
        curves = {
            str(measure): {name: values.tolist() for name, values in self.curves(measure).items()}
            for measure in self.measures
        }
        return {
            "orders": len(self._sets[self.sets[0]]),
            "seeds": self.seeds,
            "queries": self.n_queries,
            "test_queries": self.n_test,
            "measures": [str(measure) for measure in self.measures],
            "confidence": confidence,
            "letters": self.letters,
            "dropped": self.dropped,
            "tuned": self.tuned,
            "sets": sets,
            "curves": {"queries": self.points.tolist(), "running_means": curves},
        }

    def save_csv(self, path: str | os.PathLike[str], *, confidence: float = 0.95, seed: int = 0) -> None:
        """Write one row per learner, set and measure, with the mean of every order."""
        from perceptrank.evaluation.comparison_tables import csv_table

        write_atomically(os.fspath(path), csv_table(self, confidence, seed))

    def save_latex(self, path: str | os.PathLike[str], *, confidence: float = 0.95, seed: int = 0) -> None:
        """Write a table for LaTeX's package booktabs.

        The best mean of each column is bold; the letters at a mean are those of the learners that it beats.
        """
        from perceptrank.evaluation.comparison_tables import latex_table

        write_atomically(os.fspath(path), latex_table(self, confidence, seed))

    def plot(self, path: str | os.PathLike[str], measure: MeasureLike | None = None) -> None:
        """Plot the running means of all learners; the nine best have colours and names, others are grey.

        With shuffled orders the figure is for print: as wide as a column, with fonts that can be edited. Bands are one
        standard deviation over the orders wide on each side. Of 100 queries or more, the first nine are left out.
        """
        from perceptrank.evaluation.comparison_tables import capitals
        from perceptrank.evaluation.plots import draw_for_print, draw_means

        chosen = self._chosen_measure(measure)
        if not self.traces:
            raise ValueError("there are no running means: all learners were fitted to all queries at once")
        if not self.seeds:
            curves = {name: trace.running_mean(chosen) for name, trace in self.traces.items()}
            draw_means(path, curves, f"running mean of {chosen}, before learning from each query")
            return
        by_name = self.curves(chosen)
        curves = {name: by_name[name] for name in self.letters if name in by_name}
        draw_for_print(path, self.points, curves, f"running mean of {capitals(chosen)}")


def _letter(place: int) -> str:
    """Return a, b, …, z, aa, ab and so on.

    >>> _letter(0), _letter(25), _letter(26)
    ('a', 'z', 'aa')
    """
    before, last = divmod(place, 26)
    return (_letter(before - 1) if before else "") + chr(ord("a") + last)
