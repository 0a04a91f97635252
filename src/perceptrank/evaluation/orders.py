"""Compare learners over several orders of one stream, with held-out queries: one pass for each order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any, Literal

import numpy as np

from perceptrank.evaluation.comparison import compare, named_learners
from perceptrank.evaluation.holdout import NamedRanker, measured
from perceptrank.evaluation.order_comparison import Measured, OrderComparison
from perceptrank.evaluation.protocols import OnlineRanker
from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.kernels.processors import n_processors
from perceptrank.measures import Measure, MeasureLike, parse_all
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.query_stream import BLOCK_BYTES, QueryStream
from perceptrank.stream.validation import ParameterError, check_choice, check_positive_whole, check_seed, is_whole

_POINTS = 200  # of a curve


def compare_orders(
    learners: Mapping[str, OnlineRanker] | Iterable[OnlineRanker],
    stream: Blocks,
    measures: Iterable[MeasureLike] | MeasureLike = "ndcg@10",
    *,
    test: Blocks | None = None,
    orders: int | Sequence[int] = 10,
    seed: int = 0,
    n_threads: int | None = None,
    on_error: Literal["raise", "drop"] = "raise",
    progress: Callable[[int, int], object] | None = None,
) -> OrderComparison:
    """Train several learners on random orders of the same queries, and compare them over all orders.

    For each order, copies of the learners take one pass over the queries in that order, as `compare` has it; then they
    rank held-out queries, without learning. The learners that are given stay as they are.

    The queries must be accessible in any order: blocks are joined in memory, a `Store` of one segment stays on disk and
    is read in pieces. Beside them, memory has 8 bytes for each learner, order, measure and query, and one copy of each
    learner for each order. Held-out queries are read once, block by block, whatever the number of orders.

    Parameters
    ----------
    learners : sequence of learners, or mapping of names to learners
        Without names, learners are named by their algorithm, numbered where it occurs more than once.
    stream : QueryStream or iterable of QueryStream
        Queries to learn from; their documents keep their order.
    measures : str, Measure, or several
        The first decides on the order of tables.
    test : QueryStream or iterable of QueryStream, optional
        Held-out queries.
    orders : int or sequence of int
        Number of orders, whose seeds are `seed`, `seed + 1` and so on; or the seeds themselves. The order of a seed is
        that of ``stream.shuffled(seed)``.
    seed : int
        First seed.
    n_threads : int, optional
        Number of threads; default one per available processor.
    on_error : either "raise" or "drop"
        Treatment of a learner that fails in an order: raise the error, or leave out the learner in all orders and
        report it in `OrderComparison.dropped`.
    progress : callable, optional
        Called with the number of queries that were learned from, and of all.

    Returns
    -------
    OrderComparison

    Raises
    ------
    TypeError or ValueError
        If an argument is invalid, there are no queries, or all learners fail.

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.separable(200, label_noise=0.1, seed=1).stream
    >>> learners = [pr.ListwisePerceptron(), pr.SlamPerceptron()]
    >>> result = compare_orders(learners, stream[:100], test=stream[100:], orders=3)
    >>> [(one.letter, one.name) for one in result.standings()]
    [('a', 'listwise'), ('b', 'slam')]
    """
    named = named_learners(learners)
    recorded = parse_all(measures)
    if not recorded:
        raise ValueError("measures must name at least one measure, got none")
    check_choice("on_error", on_error, ("raise", "drop"))
    n_threads = n_processors() if n_threads is None else check_positive_whole("n_threads", n_threads)
    seeds = _seeds(orders, seed)
    whole = stream if isinstance(stream, QueryStream) else QueryStream.concatenate(list(as_blocks(stream)))
    if len(whole) == 0:
        raise ValueError("the stream has no queries")
    points = np.unique(np.geomspace(1, len(whole), _POINTS).astype(np.int64))
    dropped: dict[str, str] = {}
    traces: dict[str, list[Trace]] = {name: [] for name in named}
    curves: dict[Measure, dict[str, list[Floats]]] = {one: {name: [] for name in named} for one in recorded}
    trained: dict[tuple[str, int], Any] = {}
    done = 0

    def on_block(found: dict[str, Trace]) -> None:
        nonlocal done
        done += len(next(iter(found.values())))
        if progress is not None:
            progress(done, len(seeds) * len(whole))

    for number, one in enumerate(seeds):
        order: Ints = np.random.default_rng(one).permutation(len(whole))
        copies = {name: deepcopy(learner) for name, learner in named.items() if name not in dropped}
        result = compare(
            copies, _blocks(whole, order), recorded, n_threads=n_threads, on_block=on_block, on_error=on_error
        )
        dropped |= {name: f"{reason} (order {one})" for name, reason in result.dropped.items()}
        for name, trace in result.traces.items():
            for measure in recorded:
                curves[measure][name].append(trace.running_mean(measure)[points - 1])
            traces[name].append(_in_place(trace, order))
            trained[name, number] = copies[name]
    names = [name for name in named if name not in dropped]
    if not names:
        name, reason = next(iter(dropped.items()))
        raise ValueError(f"all learners failed; {name}: {reason}")
    progressive = Measured.of({name: traces[name] for name in names}, recorded)
    held_out = None
    if test is not None:
        rankers = {key: one for key, one in trained.items() if key[0] in names}
        found = _held_out(rankers, test, recorded, n_threads)
        held_out = Measured.of(
            {name: [found[name, number] for number in range(len(seeds))] for name in names}, recorded
        )
    return OrderComparison(
        names,
        seeds,
        recorded,
        progressive,
        held_out,
        points,
        {one: {name: np.stack(curves[one][name]) for name in names} for one in recorded},
        dropped,
    )


def _seeds(orders: int | Sequence[int], seed: int) -> list[int]:
    check_seed(seed)
    if is_whole(orders):
        return list(range(int(seed), int(seed) + check_positive_whole("orders", orders)))
    if isinstance(orders, (str, bytes)) or not isinstance(orders, Iterable):
        raise ParameterError("orders", "must be a number of orders, or their seeds", orders)
    seeds = list(orders)
    for one in seeds:
        check_seed(one)
    if not seeds or len(set(seeds)) < len(seeds):
        raise ParameterError("orders", "must be a number of orders, or seeds that are all different", orders)
    return [int(one) for one in seeds]


def _blocks(stream: QueryStream, order: Ints) -> Iterator[QueryStream]:
    """Yield the queries in an order, a piece at a time, so that only the piece is copied."""
    size = max(1, int(BLOCK_BYTES * len(stream) / max(1, stream.X.nbytes)))
    for start in range(0, len(order), size):
        yield stream[order[start : start + size]]


def _in_place(trace: Trace, order: Ints) -> Trace:
    """Return what was recorded in an order, query by query as the stream has them."""

    def sorted_back(values: Floats) -> Floats:
        found = np.empty_like(values)
        found[order] = values
        return found

    values = {measure: sorted_back(trace.values(measure)) for measure in trace.measures}
    weights = None if trace.weights is None else sorted_back(trace.weights)
    return Trace(values, sorted_back(trace.masses), weights)


def _held_out(
    rankers: Mapping[tuple[str, int], Any], stream: Blocks, measures: list[Measure], n_threads: int
) -> dict[tuple[str, int], Trace]:
    """Rank held-out queries with all rankers in one pass."""
    named = {key: NamedRanker(key[0], one) for key, one in rankers.items()}
    parts: dict[tuple[str, int], list[Trace]] = {key: [] for key in rankers}
    first = 0
    with ThreadPoolExecutor(n_threads) as pool:
        for block in (block for whole in as_blocks(stream, required=True) for block in whole.blocks(BLOCK_BYTES)):

            def rank(one: NamedRanker, block: QueryStream = block, first: int = first) -> Trace:
                values = measured(one.scores(block), block, measures, first)
                return Trace(values, np.zeros(len(block)), block.weights)

            for key, trace in zip(named, pool.map(rank, named.values()), strict=True):
                parts[key].append(trace)
            first += len(block)
    return {key: Trace.concatenate(traces) for key, traces in parts.items()}
