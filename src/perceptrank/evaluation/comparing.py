"""Compare learners on one stream: in one pass over the data, or over several random orders of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from perceptrank.evaluation.comparison import Comparison
from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.kernels.processors import n_processors
from perceptrank.measures import Measure, MeasureLike, parse_all
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.query_stream import BLOCK_BYTES, QueryStream
from perceptrank.stream.validation import ParameterError, check_choice, check_positive_whole, check_seed, is_whole


class Scorer(Protocol):
    """Scores the documents of a stream."""

    def scores(self, stream: QueryStream) -> Floats:
        """Return one score per document; larger is better."""
        ...


@runtime_checkable
class OnlineRanker(Protocol):
    """Learns from a stream, and records measures of each ranking before learning from it."""

    def learn(self, stream: Blocks, measures: Iterable[MeasureLike] | MeasureLike | None = None) -> Trace:
        """Rank each query, record the measures, then learn from its grades."""
        ...


_FAILURES = (MemoryError, ArithmeticError, ValueError)


def compare(
    learners: Mapping[str, OnlineRanker] | Iterable[OnlineRanker],
    stream: Blocks,
    measures: Iterable[MeasureLike] | MeasureLike = "ndcg@10",
    *,
    test: Blocks | None = None,
    orders: int | Sequence[int] | None = None,
    seed: int = 0,
    n_threads: int | None = None,
    on_block: Callable[[dict[str, Trace]], object] | None = None,
    on_error: Literal["raise", "drop"] = "raise",
) -> Comparison:
    """Train several learners on the same queries, and compare them.

    Learners take each block in parallel, while it is in the cache. They continue from their current state, and end in
    exactly the state that each would have reached alone.

    With `orders`, copies of the learners take one pass over each of several random orders of the queries; the learners
    themselves stay as they are. The queries must be accessible in any order: blocks are joined in memory, a `Store` of
    one segment stays on disk and is read in pieces. Beside them, memory has 8 bytes for each learner, order, measure
    and query, and one copy of each learner for each order.

    Parameters
    ----------
    learners : sequence of learners, or mapping of names to learners
        Without names, learners are named by their algorithm, numbered where it occurs more than once.
    stream : QueryStream or iterable of QueryStream
    measures : str, Measure, or several
        Measures to record for every ranking, before it is learned from. The first decides on the order of tables.
    test : QueryStream or iterable of QueryStream, optional
        Held-out queries, ranked after each pass without learning. They are read once, block by block.
    orders : int or sequence of int, optional
        Number of random orders, whose seeds are `seed`, `seed + 1` and so on; or the seeds themselves. The order of a
        seed is that of ``stream.shuffled(seed)``. By default one pass over the stream as it is.
    seed : int
        First seed of the orders.
    n_threads : int, optional
        Number of threads; default one per available processor.
    on_block : callable, optional
        Called after each block with the traces of that block, by name.
    on_error : either "raise" or "drop"
        Treatment of a learner that fails, for example because its weights overflow: raise the error, or continue
        without that learner, in all orders, and report it in `Comparison.dropped`.

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
    >>> result, [standing.name for standing in result.standings()]
    (Comparison(2 learners, 200 queries), ['listwise', 'slam'])
    >>> stream = pr.separable(200, label_noise=0.1, seed=1).stream
    >>> learners = [pr.ListwisePerceptron(), pr.SlamPerceptron()]
    >>> result = compare(learners, stream[:100], test=stream[100:], orders=3)
    >>> [(standing.letter, standing.name) for standing in result.standings()]
    [('a', 'listwise'), ('b', 'slam')]
    """
    named = named_learners(learners)
    recorded = parse_all(measures)
    if not recorded:
        raise ValueError("measures must name at least one measure, got none")
    n_threads = n_processors() if n_threads is None else check_positive_whole("n_threads", n_threads)
    check_choice("on_error", on_error, ("raise", "drop"))
    seeds = None if orders is None else _seeds(orders, seed)
    dropped: dict[str, str] = {}
    traces, trained = [], []
    if seeds is None:
        traces.append(_learn_together(named, stream, recorded, n_threads, on_block, on_error, dropped))
        trained.append(named)
    else:
        whole = stream if isinstance(stream, QueryStream) else QueryStream.concatenate(list(as_blocks(stream)))
        for order_seed in seeds:
            failed: dict[str, str] = {}
            copies = {name: deepcopy(learner) for name, learner in named.items() if name not in dropped}
            blocks = _shuffled_blocks(whole, order_seed)
            traces.append(_learn_together(copies, blocks, recorded, n_threads, on_block, on_error, failed))
            trained.append(copies)
            dropped |= {name: f"{reason} (order {order_seed})" for name, reason in failed.items()}
            if len(dropped) == len(named):
                break
    names = [name for name in named if name not in dropped]
    if not names:
        name, reason = next(iter(dropped.items()))
        raise ValueError(f"all learners failed; {name}: {reason}")
    held_out = None
    if test is not None:
        from perceptrank.evaluation.holdout import trace_rankings

        rankers = [{name: order[name] for name in names} for order in trained]
        held_out = trace_rankings(rankers, split_blocks(test), recorded, n_threads)
    return Comparison([{name: order[name] for name in names} for order in traces], dropped, seeds=seeds, test=held_out)


def _learn_together(
    named: Mapping[str, OnlineRanker],
    stream: Blocks,
    measures: list[Measure],
    n_threads: int,
    on_block: Callable[[dict[str, Trace]], object] | None,
    on_error: str,
    dropped: dict[str, str],
) -> dict[str, Trace]:
    """Take learners through a stream, each block in parallel; note why a learner was dropped."""
    parts: dict[str, list[Trace]] = {name: [] for name in named}
    before: dict[str, Future[Trace]] = {}
    pending: deque[dict[str, Future[Trace]]] = deque()

    def learn(name: str, block: QueryStream, previous: Future[Trace] | None) -> Trace:
        if previous is not None:
            previous.result()
        try:
            return named[name].learn(block, measures)
        except _FAILURES as error:
            # Not the error's own type, whose constructor may differ.
            kind = next(kind for kind in _FAILURES if isinstance(error, kind))
            raise kind(f"{name}: {error}") from error

    def finish_oldest() -> None:
        done = {}
        for name, future in pending.popleft().items():
            try:
                done[name] = future.result()
            except _FAILURES as error:
                if on_error == "raise":
                    raise
                dropped[name] = str(error).removeprefix(f"{name}: ")
                parts.pop(name, None)
        for name, trace in done.items():
            parts[name].append(trace)
        if on_block is not None and done:
            on_block(done)

    with ThreadPoolExecutor(n_threads) as pool:
        for block in split_blocks(stream):
            active = [name for name in named if name not in dropped]
            before = {name: pool.submit(learn, name, block, before.get(name)) for name in active}
            pending.append(before)
            if len(pending) > 1:  # learners that finish a block early need not wait for the others
                finish_oldest()
        while pending:
            finish_oldest()
    return {name: Trace.concatenate(traces) for name, traces in parts.items()}


def split_blocks(stream: Blocks) -> Iterator[QueryStream]:
    """Yield the queries of a stream in blocks that stay in the cache; raise if there are none."""
    for block in as_blocks(stream, required=True):
        yield from block.blocks(BLOCK_BYTES)


def _seeds(orders: int | Sequence[int], seed: int) -> list[int]:
    check_seed(seed)
    if is_whole(orders):
        return list(range(int(seed), int(seed) + check_positive_whole("orders", orders)))
    if isinstance(orders, (str, bytes)) or not isinstance(orders, Iterable):
        raise ParameterError("orders", "must be a number of orders, or their seeds", orders)
    seeds = list(orders)
    for order_seed in seeds:
        check_seed(order_seed)
    if not seeds or len(set(seeds)) < len(seeds):
        raise ParameterError("orders", "must be a number of orders, or seeds that are all different", orders)
    return [int(order_seed) for order_seed in seeds]


def _shuffled_blocks(stream: QueryStream, seed: int) -> Iterator[QueryStream]:
    """Yield the queries in a random order, a piece at a time, so that only the piece is copied."""
    order: Ints = np.random.default_rng(seed).permutation(len(stream))
    size = max(1, int(BLOCK_BYTES * len(stream) / max(1, stream.X.nbytes)))
    for start in range(0, len(order), size):
        yield stream[order[start : start + size]]


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
    several = list(rankers)
    kinds = [getattr(ranker, "name", type(ranker).__name__) for ranker in several]
    named = {}
    for k, (kind, ranker) in enumerate(zip(kinds, several, strict=True)):
        number = kinds[: k + 1].count(kind)
        named[f"{kind} {number}" if kinds.count(kind) > 1 else kind] = ranker
    return named
