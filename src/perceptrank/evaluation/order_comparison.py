"""Results of learners over several orders: means, spread, and which differences are significant."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from perceptrank.evaluation.bootstrap import FEWEST_QUERIES, pairwise_errors, resampled_means
from perceptrank.evaluation.student import t_critical
from perceptrank.evaluation.trace import Trace
from perceptrank.io.atomic import write_atomically
from perceptrank.kernels.arrays import Bools, Floats, Ints
from perceptrank.measures import Measure, MeasureLike, parse
from perceptrank.stream.validation import ParameterError, as_number, check_positive_whole, check_seed


class OrderStanding(NamedTuple):
    """A learner's mean over all orders and queries, and the learners that it beats.

    Attributes
    ----------
    letter : str
        Its mark in tables.
    name : str
        Name of the learner.
    mean, low, high : float
        Mean of the measure and its confidence interval.
    spread : float
        Standard deviation of the means of the orders; NaN if there is one order.
    per_order : tuple of float
        Mean of each order.
    beats : tuple of str
        Names of the learners that are significantly worse.
    """

    letter: str
    name: str
    mean: float
    low: float
    high: float
    spread: float
    per_order: tuple[float, ...]
    beats: tuple[str, ...]


class OrderDifference(NamedTuple):
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


@dataclass(frozen=True)
class Measured:
    """Values of each measure, learners x orders x queries, and the weights of the queries, if they have any."""

    values: dict[Measure, Floats]
    weights: Floats | None

    @classmethod
    def of(cls, traces: Mapping[str, Sequence[Trace]], measures: Sequence[Measure]) -> Measured:
        """Put traces of one set of queries together, by learner and order."""
        values = {
            one: np.array([[trace.values(one) for trace in several] for several in traces.values()]) for one in measures
        }
        return cls(values, next(iter(traces.values()))[0].weights)

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return int(next(iter(self.values.values())).shape[2])


class _Found(NamedTuple):
    per_order: Floats  # learners x orders
    low: Floats
    high: Floats
    half_widths: Floats  # learners x learners


class OrderComparison:
    """Several learners over several orders of the same queries: `compare_orders` makes it.

    Parameters
    ----------
    names : list of str
        Names of the learners.
    seeds : list of int
        Seed of each order.
    measures : list of Measure
        The measures; the first decides on the order of tables.
    progressive : Measured
        Values of each query before it was learned from.
    test : Measured or None
        Values of held-out queries after each pass.
    points : array of int
        Numbers of queries that curves have a value for.
    curves : mapping
        Running means at these points, orders x points, by measure and learner.
    dropped : mapping of str to str
        Error message of each learner that failed.
    """

    def __init__(
        self,
        names: Sequence[str],
        seeds: Sequence[int],
        measures: Sequence[Measure],
        progressive: Measured,
        test: Measured | None,
        points: Ints,
        curves: Mapping[Measure, Mapping[str, Floats]],
        dropped: Mapping[str, str],
    ) -> None:
        self.names, self.seeds, self.measures = list(names), list(seeds), list(measures)
        self.dropped = dict(dropped)
        self.points, self.curves = points, curves
        self._sets: dict[str, Measured] = ({} if test is None else {"test": test}) | {"progressive": progressive}
        self._known: dict[Any, _Found] = {}

    def __repr__(self) -> str:
        test = f", {self.n_test} held out" if self.n_test else ""
        return (
            f"OrderComparison({len(self.names)} learners, {len(self.seeds)} orders of {self.n_queries} queries{test})"
        )

    @property
    def n_queries(self) -> int:
        """Number of queries that were learned from in each order."""
        return self._sets["progressive"].n_queries

    @property
    def n_test(self) -> int:
        """Number of held-out queries, 0 if there are none."""
        return self._sets["test"].n_queries if "test" in self._sets else 0

    def n_counted(self, measure: MeasureLike, on: str) -> int:
        """Return how many queries of a set a measure counts: most leave out those without relevant documents.

        Parameters
        ----------
        measure : str or Measure
            One of those that were recorded.
        on : str
            One of `sets`.

        Returns
        -------
        int
        """
        return int(np.count_nonzero(self._weights(on, self._sets[on].values[parse(measure)])))

    @property
    def sets(self) -> list[str]:
        """Names of the sets of queries: "test" if some were held out, and "progressive"."""
        return list(self._sets)

    @property
    def letters(self) -> dict[str, str]:
        """Letter of each learner, the best first by the first measure of the first set."""
        values = self._sets[self.sets[0]].values[self.measures[0]]
        means = _means(values, self._weights(self.sets[0], values)).mean(axis=1)
        order = np.lexsort((np.arange(len(means)), -means))
        return {self.names[i]: _letter(place) for place, i in enumerate(order.tolist())}

    def standings(
        self,
        measure: MeasureLike | None = None,
        on: str | None = None,
        *,
        confidence: float = 0.95,
        n_resamples: int = 2000,
        seed: int = 0,
    ) -> list[OrderStanding]:
        """Rank the learners, best first, with the learners that each of them beats significantly.

        Queries and orders are resampled with replacement, both at once and the same for all learners: what is
        significant is so for new queries and new orders of this kind. The intervals of the differences hold at once for
        all pairs of learners and all measures, approximately. They are wider where the orders differ, since few orders
        do not tell how much orders differ (Student's t, with Bonferroni's correction for the pairs): take ten orders or
        more. Progressive values of a query are those before it was learned from, wherever it came in an order.

        Parameters
        ----------
        measure : str or Measure, optional
            Default the first.
        on : either "test" or "progressive", optional
            Which queries; default held-out queries if there are any.
        confidence : float
            Confidence level, between 0 and 1.
        n_resamples : int
            Number of bootstrap resamples.
        seed : int
            Seed of the bootstrap.

        Returns
        -------
        list of OrderStanding
            With fewer than 30 queries intervals are NaN and nothing is significant.

        Raises
        ------
        KeyError
            If the measure was not recorded.
        ValueError
            If an argument is invalid, or the measure leaves out all queries.
        """
        found = self._find(measure, on, confidence, n_resamples, seed)
        means, letters = found.per_order.mean(axis=1), self.letters
        one_order = found.per_order.shape[1] == 1
        spreads = np.full(len(means), np.nan) if one_order else found.per_order.std(axis=1, ddof=1)
        beats = self._beats(found)
        by_letter = sorted(range(len(means)), key=lambda j: list(letters).index(self.names[j]))
        return [
            OrderStanding(
                letters[self.names[i]],
                self.names[i],
                float(means[i]),
                float(found.low[i]),
                float(found.high[i]),
                float(spreads[i]),
                tuple(found.per_order[i].tolist()),
                tuple(self.names[j] for j in by_letter if beats[i, j]),
            )
            for i in np.lexsort((np.arange(len(means)), -means)).tolist()
        ]

    def differences(
        self,
        measure: MeasureLike | None = None,
        on: str | None = None,
        *,
        confidence: float = 0.95,
        n_resamples: int = 2000,
        seed: int = 0,
    ) -> list[OrderDifference]:
        """Return the differences of all pairs of learners, as `standings` has them.

        Parameters
        ----------
        measure : str or Measure, optional
            Default the first.
        on : either "test" or "progressive", optional
            Which queries; default held-out queries if there are any.
        confidence : float
            Confidence level, between 0 and 1.
        n_resamples : int
            Number of bootstrap resamples.
        seed : int
            Seed of the bootstrap.

        Returns
        -------
        list of OrderDifference

        Raises
        ------
        KeyError
            If the measure was not recorded.
        ValueError
            If an argument is invalid, or the measure leaves out all queries.
        """
        found = self._find(measure, on, confidence, n_resamples, seed)
        means, beats = found.per_order.mean(axis=1), self._beats(found)
        order = np.lexsort((np.arange(len(means)), -means)).tolist()
        return [
            OrderDifference(
                self.names[i],
                self.names[j],
                float(means[i] - means[j]),
                float(means[i] - means[j] - found.half_widths[i, j]),
                float(means[i] - means[j] + found.half_widths[i, j]),
                bool(beats[i, j]),
            )
            for place, i in enumerate(order)
            for j in order[place + 1 :]
        ]

    def _find(
        self, measure: MeasureLike | None, on: str | None, confidence: float, n_resamples: int, seed: int
    ) -> _Found:
        if not 0 < as_number(confidence) < 1:
            raise ParameterError("confidence", "must be between 0 and 1", confidence)
        check_positive_whole("n_resamples", n_resamples)
        check_seed(seed)
        on = self.sets[0] if on is None else on
        if on not in self._sets:
            raise ParameterError("on", f"must be one of {', '.join(map(repr, self._sets))}", on)
        chosen = self.measures[0] if measure is None else parse(measure)
        if chosen not in self.measures:
            raise KeyError(f"{chosen} was not recorded; {', '.join(map(str, self.measures))} were")
        key = chosen, on, confidence, n_resamples, seed
        if key not in self._known:
            self._known[key] = self._resample(*key)
        return self._known[key]

    def _resample(self, chosen: Measure, on: str, confidence: float, n_resamples: int, seed: int) -> _Found:
        values = self._sets[on].values[chosen]
        weights = self._weights(on, values)
        n_learners, n_orders, _ = values.shape
        per_order = _means(values, weights)
        if np.isnan(per_order).any():
            raise ValueError(f"no query counts for {chosen}: it leaves out all of them")
        counted = weights > 0
        own = weights[counted]
        equal = bool((own == own[0]).all())
        n = float(own.sum() ** 2 / (own @ own))
        rng = np.random.default_rng(seed)
        rows = values[:, :, counted].reshape(n_learners * n_orders, -1)
        drawn = resampled_means(rows, n_resamples, rng, None if equal else own)
        drawn = drawn.reshape(n_resamples, n_learners, n_orders)
        shares = rng.multinomial(n_orders, np.full(n_orders, 1 / n_orders), size=n_resamples) / n_orders
        together: Floats = np.einsum("blr,br->bl", drawn, shares)
        tail = (1 - confidence) / 2
        low, high = np.quantile(together, [tail, 1 - tail], axis=0)
        means = per_order.mean(axis=1)
        family = 1 - (1 - confidence) / len(self.measures)
        critical, errors = pairwise_errors(together, means, family)
        if n_orders > 1:  # few orders do not tell either how the differences of pairs depend on each other
            n_pairs = max(1, n_learners * (n_learners - 1) // 2)
            critical = max(critical, np.float64(NormalDist().inv_cdf(1 - (1 - family) / (2 * n_pairs))))
        half_widths = _half_widths(float(critical), errors * np.sqrt(n / max(1, n - 1)), per_order)
        if n < FEWEST_QUERIES:
            low, high, half_widths = (np.full_like(one, np.nan) for one in (low, high, half_widths))
        return _Found(per_order, low, high, half_widths)

    def _weights(self, on: str, values: Floats) -> Floats:
        """Return the weights of the queries, 0 of those that the measure leaves out for any learner."""
        counted: Bools = np.asarray(~np.isnan(values).any(axis=(0, 1)))
        weights = self._sets[on].weights
        if weights is None:
            return counted.astype(np.float64)
        scaled: Floats = np.ldexp(weights, -np.frexp(weights.max())[1]) * counted  # their squares are numbers
        return scaled

    def _beats(self, found: _Found) -> Bools:
        means = found.per_order.mean(axis=1)
        beats: Bools = means[:, None] - means > found.half_widths  # no number is larger than NaN
        return beats

    def as_plain(self, *, confidence: float = 0.95, seed: int = 0) -> dict[str, Any]:
        """Return everything but the values of single queries as dicts, lists, text and numbers.

        Parameters
        ----------
        confidence : float
            Confidence level, between 0 and 1.
        seed : int
            Seed of the bootstrap.

        Returns
        -------
        dict
        """
        sets = {}
        for on in self._sets:
            sets[on] = {
                str(one): {
                    "standings": [each._asdict() for each in self.standings(one, on, confidence=confidence, seed=seed)],
                    "differences": [
                        each._asdict() for each in self.differences(one, on, confidence=confidence, seed=seed)
                    ],
                }
                for one in self.measures
            }
        return {
            "orders": len(self.seeds),
            "seeds": self.seeds,
            "queries": self.n_queries,
            "test_queries": self.n_test,
            "measures": [str(one) for one in self.measures],
            "confidence": confidence,
            "letters": self.letters,
            "dropped": self.dropped,
            "sets": sets,
            "curves": {
                "queries": self.points.tolist(),
                "running_means": {
                    str(one): {name: values.tolist() for name, values in self.curves[one].items()}
                    for one in self.measures
                },
            },
        }

    def save_csv(self, path: str | os.PathLike[str], *, confidence: float = 0.95, seed: int = 0) -> None:
        """Write one row per learner, set and measure, with the mean of every order, atomically.

        Parameters
        ----------
        path : path
            The file; one of that name is replaced.
        confidence : float
            Confidence level, between 0 and 1.
        seed : int
            Seed of the bootstrap.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        from perceptrank.evaluation.order_tables import csv_table

        write_atomically(os.fspath(path), csv_table(self, confidence, seed))

    def save_latex(self, path: str | os.PathLike[str], *, confidence: float = 0.95, seed: int = 0) -> None:
        """Write a table for LaTeX's package booktabs, atomically.

        The best mean of each column is bold; the letters at a mean are those of the learners that it beats.

        Parameters
        ----------
        path : path
            The file; one of that name is replaced.
        confidence : float
            Confidence level, between 0 and 1.
        seed : int
            Seed of the bootstrap.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        from perceptrank.evaluation.order_tables import latex_table

        write_atomically(os.fspath(path), latex_table(self, confidence, seed))

    def plot(self, path: str | os.PathLike[str], measure: MeasureLike | None = None) -> None:
        """Plot running means over the orders for print: as wide as a column, with fonts that can be edited.

        Bands are one standard deviation over the orders wide on each side. Of 100 queries or more, the first nine are
        left out, and bands that are far wider at first than later leave the axes. The nine best learners have colours
        and names, others are grey.

        Parameters
        ----------
        path : path
            Image file; the suffix selects the format.
        measure : str or Measure, optional
            Default the first.

        Raises
        ------
        KeyError
            If the measure was not recorded.
        ImportError
            If matplotlib is not installed.
        OSError
            If the file cannot be written.
        """
        from perceptrank.evaluation.order_tables import capitals
        from perceptrank.evaluation.print_plot import draw_for_print

        chosen = self.measures[0] if measure is None else parse(measure)
        if chosen not in self.measures:
            raise KeyError(f"{chosen} was not recorded; {', '.join(map(str, self.measures))} were")
        curves = {name: self.curves[chosen][name] for name in self.letters}
        draw_for_print(path, self.points, curves, f"running mean of {capitals(chosen)}")


def _means(values: Floats, weights: Floats) -> Floats:
    """Return the mean of each learner in each order, NaN if no query counts."""
    total = weights.sum()
    if total == 0:
        return np.full(values.shape[:2], np.nan)
    means: Floats = np.nan_to_num(values) @ weights / total
    return means


def _half_widths(critical: float, errors: Floats, per_order: Floats) -> Floats:
    """Return the half-widths of intervals of the differences of all pairs.

    Of the variance of a difference, the part s² is due to the orders, r of them. Resampling finds it too small by
    s² / r, and it is known from r values only: so its part of the half-width is that of Student's t with r - 1 degrees
    of freedom.
    """
    n_orders = per_order.shape[1]
    if n_orders == 1:
        alone: Floats = critical * errors
        return alone
    due = (per_order[:, None] - per_order[None]).var(axis=2, ddof=1) / n_orders
    others = np.maximum(errors**2 + due / n_orders - due, 0.0)
    half_widths: Floats = np.sqrt(critical**2 * others + t_critical(critical, n_orders - 1) ** 2 * due)
    return half_widths


def _letter(place: int) -> str:
    """Return a, b, …, z, aa, ab and so on.

    Examples
    --------
    >>> _letter(0), _letter(25), _letter(26)
    ('a', 'z', 'aa')
    """
    before, last = divmod(place, 26)
    return (_letter(before - 1) if before else "") + chr(ord("a") + last)
