"""Compare learners on one stream, in one pass over the data, with significance of the differences."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal, NamedTuple

import numpy as np

from perceptrank.evaluation.bootstrap import FEWEST_QUERIES, resampled_means, simultaneous_half_widths
from perceptrank.evaluation.plots import draw_running_means
from perceptrank.evaluation.protocols import OnlineRanker
from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.processors import n_processors
from perceptrank.measures import Measure, MeasureLike, parse, parse_all
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.query_stream import BLOCK_BYTES, QueryStream
from perceptrank.stream.validation import check_choice, check_positive_whole


class Standing(NamedTuple):
    """Mean of a learner, and its difference to the best learner.

    Attributes
    ----------
    name : str
        Name of the learner.
    mean, low, high : float
        Mean of the measure and its confidence interval.
    behind, behind_low, behind_high : float
        Mean of the best learner minus this one's, and its confidence interval; 0 for the best learner itself.
    is_behind : bool
        The difference is significant: its whole interval is above 0.
    n_updates : int
        Number of rounds with an update.
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


class Comparison:
    """Results of several learners on the same queries.

    Parameters
    ----------
    traces : mapping of str to Trace
        Trace of each learner, by name.
    dropped : mapping of str to str, optional
        Error message of each learner that failed, by name.

    Attributes
    ----------
    traces : dict of str to Trace
        Trace of each learner, by name.
    dropped : dict of str to str
        Error message of each learner that failed, by name.

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.mslr_shaped(200, n_documents=8, n_features=5)
    >>> comparison = pr.compare([pr.ListwisePerceptron(), pr.SlamPerceptron()], stream, "ndcg@10")
    >>> comparison
    Comparison(2 learners, 200 queries)
    >>> [standing.name for standing in comparison.standings()]
    ['listwise', 'slam']
    """

    def __init__(self, traces: Mapping[str, Trace], dropped: Mapping[str, str] | None = None) -> None:
        self.traces = dict(traces)
        self.dropped = dict(dropped or {})

    def __repr__(self) -> str:
        first = next(iter(self.traces.values()))
        return f"Comparison({len(self.traces)} learners, {len(first)} queries)"

    @property
    def measures(self) -> list[Measure]:
        """The recorded measures."""
        return next(iter(self.traces.values())).measures

    def standings(
        self,
        measure: MeasureLike | None = None,
        *,
        confidence: float = 0.95,
        n_resamples: int = 2000,
        seed: int = 0,
    ) -> list[Standing]:
        """Rank the learners, best first, with bootstrap confidence intervals.

        Queries are resampled with replacement, the same for all learners (a paired bootstrap), so that the difficulty
        of a query cancels in differences. The intervals of the differences to the best learner are simultaneous: all of
        them cover with the given confidence, for any number of learners and whichever is the best. The randomness is
        that of the queries alone, each ranked by the learner as it was in that round; other orders of the stream are
        not considered. Coverage is approximate, and better with more queries. If queries have weights, means are
        weighted, and the number of queries is the effective one: the squared sum of weights over the sum of squares.

        Parameters
        ----------
        measure : str or Measure, optional
            Default the first recorded measure. Queries that it leaves out for any learner are ignored.
        confidence : float
            Confidence level of the intervals, between 0 and 1.
        n_resamples : int
            Number of bootstrap resamples.
        seed : int
            Seed of the bootstrap.

        Returns
        -------
        list of Standing
            With fewer than 30 queries the intervals are NaN and no difference is significant.

        Raises
        ------
        KeyError
            If the measure was not recorded.
        ValueError
            If an argument is invalid, or the measure leaves out all queries.
        """
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}")
        check_positive_whole("n_resamples", n_resamples)
        chosen = self.measures[0] if measure is None else parse(measure)
        names = list(self.traces)
        values = np.array([self.traces[name].values(chosen) for name in names])
        counted, weights = ~np.isnan(values).any(axis=0), self.traces[names[0]].weights
        if weights is not None:
            counted &= weights > 0
            weights = np.ldexp(weights[counted], -np.frexp(weights.max())[1])  # their squares are numbers
        values = values[:, counted]
        if values.shape[1] == 0:
            raise ValueError(f"no query counts for {chosen}: it leaves out all of them")
        n = values.shape[1] if weights is None else float(weights.sum() ** 2 / (weights @ weights))
        means = np.average(values, axis=1, weights=weights) if weights is not None else values.mean(axis=1)
        drawn = resampled_means(values, n_resamples, np.random.default_rng(seed), weights)
        tail = (1 - confidence) / 2
        lows, highs = np.quantile(drawn, [tail, 1 - tail], axis=0)
        best = int(np.argmax(means))
        behind = means[best] - means
        half_widths = simultaneous_half_widths(drawn, means, best, confidence) * np.sqrt(n / max(1, n - 1))
        if n < FEWEST_QUERIES:
            lows, highs, half_widths = (np.full(len(means), np.nan) for _ in range(3))
        order = np.lexsort((np.arange(len(names)), -means))
        return [
            Standing(
                names[i],
                float(means[i]),
                float(lows[i]),
                float(highs[i]),
                float(behind[i]),
                float(behind[i] - half_widths[i]),
                float(behind[i] + half_widths[i]),
                bool(behind[i] > half_widths[i]),
                self.traces[names[i]].n_updates,
            )
            for i in order
        ]

    def plot(self, path: str | os.PathLike[str], measure: MeasureLike | None = None) -> None:
        """Plot the running means of all learners.

        Parameters
        ----------
        path : path
            Image file; the suffix selects the format.
        measure : str or Measure, optional
            Default the first recorded measure.

        Raises
        ------
        ImportError
            If matplotlib (extra ``plot``) is not installed.
        KeyError
            If the measure was not recorded.
        ValueError
            If the suffix is unknown.
        """
        chosen = self.measures[0] if measure is None else parse(measure)
        curves = {name: trace.running_mean(chosen) for name, trace in self.traces.items()}
        draw_running_means(path, curves, f"running mean of {chosen}, before learning from each query")


def compare(
    learners: Mapping[str, OnlineRanker] | Iterable[OnlineRanker],
    stream: Blocks,
    measures: Iterable[MeasureLike] | MeasureLike = "ndcg@10",
    *,
    n_threads: int | None = None,
    on_block: Callable[[dict[str, Trace]], object] | None = None,
    on_error: Literal["raise", "drop"] = "raise",
) -> Comparison:
    """Train several learners in one pass over a stream, and compare them.

    Learners take each block in parallel, while it is in the cache. They continue from their current state, and end in
    exactly the state that each would have reached alone.

    Parameters
    ----------
    learners : sequence of learners, or mapping of names to learners
        Without names, learners are named by their algorithm, numbered where it occurs more than once.
    stream : QueryStream or iterable of QueryStream
    measures : str, Measure, or several
        Measures to record for every ranking, before it is learned from.
    n_threads : int, optional
        Number of threads; default one per available processor.
    on_block : callable, optional
        Called after each block with the traces of that block, by name.
    on_error : either "raise" or "drop"
        Treatment of a learner that fails, for example because its weights overflow: raise the error, or continue
        without that learner and report it in `Comparison.dropped`.

    Returns
    -------
    Comparison

    Raises
    ------
    TypeError or ValueError
        If an argument is invalid, there are no queries, or all learners fail.
    ArithmeticError, MemoryError, or ValueError
        If a learner fails and `on_error` is "raise"; the message names the learner.

    Examples
    --------
    >>> import perceptrank as pr
    >>> result = compare([pr.ListwisePerceptron(), pr.SlamPerceptron()], pr.separable(200).stream)
    >>> [standing.name for standing in result.standings()]
    ['listwise', 'slam']
    """
    named = named_learners(learners)
    recorded = parse_all(measures)
    if not recorded:
        raise ValueError("measures must name at least one measure, got none")
    n_threads = n_processors() if n_threads is None else check_positive_whole("n_threads", n_threads)
    check_choice("on_error", on_error, ("raise", "drop"))
    parts: dict[str, list[Trace]] = {name: [] for name in named}
    dropped: dict[str, str] = {}

    before: dict[str, Future[Trace]] = {}
    pending: deque[dict[str, Future[Trace]]] = deque()

    def learn(name: str, block: QueryStream, previous: Future[Trace] | None) -> Trace:
        if previous is not None:
            previous.result()
        try:
            return named[name].learn(block, recorded)
        except (ValueError, ArithmeticError, MemoryError) as error:
            kinds = (MemoryError, ArithmeticError, ValueError)
            kind = next(
                one for one in kinds if isinstance(error, one)
            )  # not the error's own type, whose constructor may differ
            raise kind(f"{name}: {error}") from error

    def finish_oldest() -> None:
        done = {}
        for name, future in pending.popleft().items():
            try:
                done[name] = future.result()
            except (ValueError, ArithmeticError, MemoryError) as error:
                if on_error == "raise":
                    raise
                dropped[name] = str(error).removeprefix(f"{name}: ")
                parts.pop(name, None)
        for name, trace in done.items():
            parts[name].append(trace)
        if on_block is not None and done:
            on_block(done)

    with ThreadPoolExecutor(n_threads) as pool:
        for whole in as_blocks(stream, required=True):
            for block in whole.blocks(BLOCK_BYTES):
                active = [name for name in named if name not in dropped]
                before = {name: pool.submit(learn, name, block, before.get(name)) for name in active}
                pending.append(before)
                if len(pending) > 1:  # learners that finish a block early need not wait for the others
                    finish_oldest()
        while pending:
            finish_oldest()
    if dropped and not parts:
        name, reason = next(iter(dropped.items()))
        raise ValueError(f"all learners failed; {name}: {reason}")
    return Comparison({name: Trace.concatenate(traces) for name, traces in parts.items()}, dropped)


def named_learners(learners: Mapping[str, OnlineRanker] | Iterable[OnlineRanker]) -> dict[str, OnlineRanker]:
    """Return learners by name; raise if there are none, one is something else, or was given twice."""
    if isinstance(learners, OnlineRanker):
        raise TypeError("learners must be a list or a dict of learners, got one learner")
    named = dict(learners) if isinstance(learners, Mapping) else numbered_names(learners)
    if not named:
        raise ValueError("learners must name at least one learner, got none")
    for name, learner in named.items():
        if not isinstance(learner, OnlineRanker):
            raise TypeError(f"learners must be learners, got {type(learner).__name__} for {name!r}")
    if len({id(learner) for learner in named.values()}) < len(named):
        raise ValueError("learners must be distinct objects: one was given twice")
    return named


def numbered_names(rankers: Iterable[Any]) -> dict[str, Any]:
    """Name rankers by their algorithms, numbered where one occurs more than once."""
    given = list(rankers)
    kinds = [getattr(one, "name", type(one).__name__) for one in given]
    named = {}
    for k, (kind, ranker) in enumerate(zip(kinds, given, strict=True)):
        number = kinds[: k + 1].count(kind)
        named[f"{kind} {number}" if kinds.count(kind) > 1 else kind] = ranker
    return named
