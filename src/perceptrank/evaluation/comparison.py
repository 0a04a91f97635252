"""Several learners on one stream, in one pass over the data, and which of their differences are real."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal, NamedTuple

import numpy as np

from perceptrank.evaluation.plots import draw_running_means
from perceptrank.evaluation.protocols import OnlineRanker
from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Floats
from perceptrank.kernels.processors import n_processors
from perceptrank.measures.measure import Measure, MeasureLike, parse, parse_all
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.query_stream import BLOCK_BYTES, QueryStream
from perceptrank.stream.validation import check_choice, check_positive_whole

_DRAWN_AT_ONCE = 10**7
_FEWEST_QUERIES = 30


class Standing(NamedTuple):
    """How a learner has done, and how far it is behind the best.

    `mean` is between `low` and `high`, and the best learner's mean minus this one's between `behind_low` and
    `behind_high`, with the confidence asked for. `is_behind` says whether the difference is real: the whole interval is
    above 0. For the best learner itself the difference is 0.
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
    """What several learners did on the same queries. `traces` has a `Trace` for each, by name.

    `dropped` says, for those that did not come to the end, why.
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
        """The learners, best first, with intervals from resampling queries.

        Queries are drawn anew with replacement, the same ones for all learners, so that what makes a query easy or hard
        for all of them cancels in differences. The intervals of the differences to the best learner hold together: with
        the given confidence all of them are right at once, however many learners there are and whichever is the best.
        What is resampled are queries, with the learners as they were when each was ranked; another order of the stream
        is not among the chances considered. All this holds approximately, the better the more queries there are; of
        fewer than 30 that count there are no intervals (they are NaN), and no difference is called real.

        `measure` is by default the first one recorded.
        """
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}")
        check_positive_whole("n_resamples", n_resamples)
        chosen = self.measures[0] if measure is None else parse(measure)
        names = list(self.traces)
        values = np.array([self.traces[name].values(chosen) for name in names])
        values = values[:, ~np.isnan(values).any(axis=0)]
        if values.shape[1] == 0:
            raise ValueError(f"no query counts for {chosen}")
        n = values.shape[1]
        means = values.mean(axis=1)
        drawn = _resampled_means(values, n_resamples, np.random.default_rng(seed))
        tail = (1 - confidence) / 2
        lows, highs = np.quantile(drawn, [tail, 1 - tail], axis=0)
        best = int(np.argmax(means))
        behind = means[best] - means
        half_widths = _simultaneous(drawn, means, best, confidence) * np.sqrt(n / max(1, n - 1))
        if n < _FEWEST_QUERIES:
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
        """Draw the running means of all learners into an image file; its suffix says which kind."""
        chosen = self.measures[0] if measure is None else parse(measure)
        curves = {name: trace.running_mean(chosen) for name, trace in self.traces.items()}
        draw_running_means(path, curves, f"{chosen} so far, before learning from each query")


def _resampled_means(values: Floats, n_resamples: int, rng: np.random.Generator) -> Floats:
    """Means of each row over columns drawn with replacement, again and again: resamples x rows."""
    n = values.shape[1]
    means = np.empty((n_resamples, len(values)))
    at_once = max(1, min(100, _DRAWN_AT_ONCE // n))
    for start in range(0, n_resamples, at_once):
        size = min(at_once, n_resamples - start)
        counts = np.stack([np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(size)])
        means[start : start + size] = counts @ values.T / n
    return means


def _simultaneous(drawn: Floats, means: Floats, best: int, confidence: float) -> Floats:
    """Half the widths of intervals for the differences to the best, from those of all pairs of learners.

    The best one is known only afterwards, so it takes intervals that hold for all pairs at once: as many standard
    errors to both sides as the largest deviation among all pairs stays below with the given confidence.
    """
    deviations = drawn - means
    largest = np.zeros(len(drawn))
    errors = np.zeros(len(means))
    for i in range(len(means)):
        apart = deviations[:, [i]] - deviations
        error = apart.std(axis=0)
        np.maximum(largest, (np.abs(apart) / np.where(error > 0, error, np.inf)).max(axis=1), out=largest)
        if i == best:
            errors = error
    half_widths: Floats = np.quantile(largest, confidence) * errors
    return half_widths


def compare(
    learners: Mapping[str, OnlineRanker] | Iterable[OnlineRanker],
    stream: Blocks,
    measures: Iterable[MeasureLike] | MeasureLike = "ndcg@10",
    *,
    n_threads: int | None = None,
    on_block: Callable[[dict[str, Trace]], object] | None = None,
    on_error: Literal["raise", "drop"] = "raise",
) -> Comparison:
    """Let several learners learn from a stream, a `QueryStream` or an iterable of them, in one pass over the data.

    Each block goes to all learners while it is in the processor's cache, several at a time. The learners, which go on
    from what they have learned before, learn exactly what each would have learned alone.

    Parameters
    ----------
    learners : list of learners, or dict of names and learners
        Without names they are called by their algorithm, numbered where it occurs more than once.
    stream : QueryStream or iterable of them
    measures : str, Measure, or several
        What to record of every ranking before it is learned from.
    n_threads : int, optional
        By default as many as there are processors to use.
    on_block : callable, optional
        Called after each block with the traces of that block, by name.
    on_error : {"raise", "drop"}
        What to do if a learner fails, as when its weights grow beyond all bounds: raise the error, or go on without
        that learner and say so in the result's `dropped`.

    >>> import perceptrank as pr
    >>> result = compare([pr.ListwisePerceptron(), pr.SlamPerceptron()], pr.separable(200).stream)
    >>> [standing.name for standing in result.standings()]
    ['listwise', 'slam']
    """
    named = _named(learners)
    recorded = parse_all(measures)
    if not recorded:
        raise ValueError("measures must name at least one measure, got none")
    n_threads = n_processors() if n_threads is None else check_positive_whole("n_threads", n_threads)
    check_choice("on_error", on_error, ("raise", "drop"))
    parts: dict[str, list[Trace]] = {name: [] for name in named}
    dropped: dict[str, str] = {}

    before: dict[str, Future[Trace]] = {}
    under_way: deque[dict[str, Future[Trace]]] = deque()

    def learn(name: str, block: QueryStream, previous: Future[Trace] | None) -> Trace:
        if previous is not None:
            previous.result()
        try:
            return named[name].learn(block, recorded)
        except (ValueError, ArithmeticError, MemoryError) as error:
            kinds = (MemoryError, ArithmeticError, ValueError)
            kind = next(one for one in kinds if isinstance(error, one))  # not its own, which may want other arguments
            raise kind(f"{name}: {error}") from error

    def finish_oldest() -> None:
        done = {}
        for name, future in under_way.popleft().items():
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
        for whole in as_blocks(stream):
            for block in whole.blocks(BLOCK_BYTES):
                going = [name for name in named if name not in dropped]
                before = {name: pool.submit(learn, name, block, before.get(name)) for name in going}
                under_way.append(before)
                if len(under_way) > 1:  # learners that are done with a block need not wait for the others
                    finish_oldest()
        while under_way:
            finish_oldest()
    if dropped and not parts:
        name, reason = next(iter(dropped.items()))
        raise ValueError(f"no learner came to the end; {name}: {reason}")
    if not any(parts.values()):
        raise ValueError("the stream has no queries")
    return Comparison({name: Trace.concatenate(traces) for name, traces in parts.items()}, dropped)


def _named(learners: Mapping[str, OnlineRanker] | Iterable[OnlineRanker]) -> dict[str, OnlineRanker]:
    if isinstance(learners, OnlineRanker):
        raise TypeError("learners must be a list or a dict of learners, got one learner")
    if isinstance(learners, Mapping):
        named = dict(learners)
    else:
        given = list(learners)
        kinds = [getattr(one, "name", type(one).__name__) for one in given]
        named = {}
        for place, (kind, learner) in enumerate(zip(kinds, given, strict=True)):
            number = kinds[: place + 1].count(kind)
            named[f"{kind} {number}" if kinds.count(kind) > 1 else kind] = learner
    if not named:
        raise ValueError("learners must name at least one learner, got none")
    for name, learner in named.items():
        if not isinstance(learner, OnlineRanker):
            raise TypeError(f"learners must be learners, got {type(learner).__name__} for {name!r}")
    if len({id(learner) for learner in named.values()}) < len(named):
        raise ValueError("learners must differ from each other: one was given twice")
    return named
