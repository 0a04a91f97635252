"""Compare learners on one stream: in one pass over the data, or over several random orders of it."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from copy import deepcopy
from itertools import chain, repeat
from typing import Any, Literal

import numpy as np

from perceptrank.evaluation.comparison import Comparison
from perceptrank.evaluation.contenders import FAILURES, Batch, OnlineRanker, as_contender
from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Ints
from perceptrank.kernels.processors import n_processors
from perceptrank.measures import Measure, MeasureLike, parse_all
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.query_stream import BLOCK_BYTES, QueryStream
from perceptrank.stream.validation import ParameterError, check_choice, check_positive_whole, check_seed, is_whole
from perceptrank.transforms.sharing import may_share, sharing


def compare(
    learners: Mapping[str, Any] | Iterable[Any],
    stream: Blocks,
    measures: Iterable[MeasureLike] | MeasureLike = "ndcg@10",
    *,
    test: Blocks | None = None,
    vali: Blocks | None = None,
    orders: int | Sequence[int] | None = None,
    seed: int = 0,
    n_threads: int | None = None,
    on_block: Callable[[dict[str, Trace]], object] | None = None,
    on_fit: Callable[[str], object] | None = None,
    on_error: Literal["raise", "drop"] = "raise",
) -> Comparison:
    """Train several learners on the same queries, and compare them.

    Learners take each block in parallel. They continue from their current state, and end in exactly the state that each
    would have reached alone.

    With `orders`, copies of the learners take one pass over each of several random orders of the queries; the learners
    themselves stay as they are. Blocks are joined in memory for that; a `Store` of one segment stays on disk. Memory
    also has 8 bytes for each learner, order, measure and query, and one copy of each learner for each order.

    Of other models, what has `learn(stream)`, `learn(X, relevance)` or `learn_one(X, relevance)` ranks each query
    before it learns from it. What has `fit`, such as LightGBM's and XGBoost's rankers and scikit-learn's regressors, is
    fitted to all queries of an order at once: it has values for held-out queries only. Whatever else has
    `scores(stream)` or `predict(X)`, and a function that returns the scores of a stream, does not learn.

    Parameters
    ----------
    learners : sequence of learners, or mapping of names to learners
        Without names, learners are named by their algorithm, numbered where it occurs more than once. With `vali`, a
        name may have a list of candidates, or a mapping of names to them.
    stream : QueryStream or iterable of QueryStream
    measures : str, Measure, or several
        Measures to record for every ranking, before it is learned from. The first decides on the order of tables.
    test : QueryStream or iterable of QueryStream, optional
        Held-out queries, ranked after each pass without learning. They are read once, block by block.
    vali : QueryStream or iterable of QueryStream, optional
        Queries to choose among candidates by: of each name, the one with the largest mean of the first measure over all
        orders is kept. `Comparison.tuned` has the means.
    orders : int or sequence of int, optional
        Number of random orders, ``stream.shuffled(seed)``, ``stream.shuffled(seed + 1)`` and so on; or their seeds. By
        default one pass over the stream as it is.
    seed : int
        First seed of the orders.
    n_threads : int, optional
        Number of threads; default one per available processor.
    on_block : callable, optional
        Called after each block with the traces of that block, by name.
    on_fit : callable, optional
        Called with the name of a model before it is fitted to all queries at once.
    on_error : either "raise" or "drop"
        Treatment of a learner that fails, for example because its weights overflow: raise the error, or continue
        without that learner, in all orders, and report it in `Comparison.dropped`.

    Raises
    ------
    ArithmeticError, MemoryError, or ValueError
        If a learner fails and `on_error` is "raise", the message names it; or if all fail.

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.separable(200, label_noise=0.1, seed=1).stream
    >>> learners = [pr.ListwisePerceptron(), pr.SlamPerceptron()]
    >>> result = compare(learners, stream[:100], test=stream[100:], orders=3)
    >>> [(standing.letter, standing.name) for standing in result.standings()]
    [('a', 'listwise'), ('b', 'slam')]
    """
    groups = _candidates(learners, has_vali=vali is not None)
    contenders: dict[str, Any] = {name: as_contender(name, each) for name, each in _ungrouped(groups).items()}
    batch = [name for name, each in contenders.items() if isinstance(each, Batch)]
    if batch and test is None:
        raise ValueError(
            f"{batch[0]!r} is fitted to all queries at once, so that it ranks none before it has learned from it: "
            "`test=…` names held-out queries for it to rank"
        )
    recorded = parse_all(measures)
    if not recorded:
        raise ValueError("measures must name at least one measure, got none")
    n_threads = n_processors() if n_threads is None else check_positive_whole("n_threads", n_threads)
    check_choice("on_error", on_error, ("raise", "drop"))
    seeds = None if orders is None else _seeds(orders, seed)
    if (batch or seeds is not None) and not isinstance(stream, QueryStream):
        stream = QueryStream.concatenate(list(as_blocks(stream, required=True)))
    dropped: dict[str, str] = {}
    traces, trained = [], []
    for order_seed in [None] if seeds is None else seeds:
        failed: dict[str, str] = {}
        copies: dict[str, Any] = contenders
        blocks, whole = stream, stream
        if order_seed is not None and isinstance(stream, QueryStream):
            copies = {name: deepcopy(each) for name, each in contenders.items() if name not in dropped}
            blocks = _shuffled_blocks(stream, order_seed)
            whole = stream.shuffled(order_seed) if batch else stream
        online = {name: each for name, each in copies.items() if name not in batch}
        learned = _learn_together(online, blocks, recorded, n_threads, on_block, on_error, failed) if online else {}
        traces.append(learned)
        for name in (name for name in batch if name in copies):
            if on_fit is not None:
                on_fit(name)
            try:
                copies[name].fit(whole)
            except FAILURES as error:
                if on_error == "raise":
                    raise _named_failure(name, error) from error
                failed[name] = str(error)
        trained.append(copies)
        order = "" if order_seed is None else f" (order {order_seed})"
        dropped |= {name: f"{reason}{order}" for name, reason in failed.items()}
        if len(dropped) == len(contenders):
            name, reason = next(iter(dropped.items()))
            raise ValueError(f"all learners failed; {name}: {reason}")
    names = [name for name in contenders if name not in dropped]
    n_queries = len(stream) if isinstance(stream, QueryStream) else None
    unranked: dict[str, str] = {}
    noted = unranked if on_error == "drop" else None
    tuned: dict[str, dict[str, float]] = {}
    if vali is not None:
        candidates = [{name: order[name] for name in names} for order in trained]
        means = _means(candidates, vali, recorded[0], n_threads, noted)
        for group in groups.values():
            own = {name: means[name] for name in group if name in means}
            tuned |= {max(own, key=own.__getitem__): own} if own else {}
        names = [name for name in names if name in tuned]
    held_out = None
    if test is not None:
        from perceptrank.evaluation.holdout import trace_rankings

        rankers = [{name: order[name] for name in names} for order in trained]
        held_out = trace_rankings(rankers, split_blocks(test, names_known(rankers[0])), recorded, n_threads, noted)
    if not set(names) - unranked.keys():
        name, reason = next(iter(unranked.items()))
        raise ValueError(f"all learners failed; {name}: {reason}")
    dropped |= unranked
    progressive = [{name: order[name] for name in names if name in order and name not in dropped} for order in traces]
    return Comparison(progressive, dropped, seeds=seeds, test=held_out, n_queries=n_queries, tuned=tuned)


def _candidates(learners: Any, *, has_vali: bool) -> dict[str, dict[str, Any]]:
    """Return the contenders of each name, by names of their own; one of its name alone if there are no candidates."""
    if hasattr(learners, "learn") or hasattr(learners, "predict"):
        raise TypeError("learners must be a list or a dict of learners, got one learner")
    groups = {}
    for name, own in (learners if isinstance(learners, Mapping) else numbered_names(learners)).items():
        if not isinstance(own, (Mapping, list, tuple)):
            groups[name] = {name: own}
            continue
        if not has_vali:
            raise ValueError(f"{name!r} has several candidates: `vali=…` names the queries to choose among them by")
        pairs = own.items() if isinstance(own, Mapping) else enumerate(own, 1)
        groups[name] = {f"{name} {key}": each for key, each in pairs}
        if not own:
            raise ValueError(f"{name!r} has no candidates: its list must have one or more")
    if not groups:
        raise ValueError("learners must name at least one learner, got none")
    if twice := [name for name, n in Counter(chain.from_iterable(groups.values())).items() if n > 1]:
        raise ValueError(f"names of learners and candidates must differ, got {twice[0]!r} twice")
    if has_vali and all(len(group) == 1 for group in groups.values()):
        raise ValueError(
            "`vali=…` chooses among candidates, and no learner has several: several values of `learning_rate`, or "
            "a list of models for a name"
        )
    return groups


def _means(
    orders: list[dict[str, Any]], vali: Blocks, measure: Measure, n_threads: int, failed: dict[str, str] | None
) -> dict[str, float]:
    """Return the mean of each ranker's values over the queries of all orders."""
    from perceptrank.evaluation.holdout import trace_rankings

    traces = trace_rankings(orders, split_blocks(vali, names_known(orders[0])), [measure], n_threads, failed)
    means = {name: float(np.mean([order[name].mean(measure) for order in traces])) for name in traces[0]}
    if np.isnan(list(means.values())).any():
        raise ValueError(f"no query of `vali` counts for {measure}: it leaves out all of them")
    return means


def _named_failure(name: str, error: Exception) -> Exception:
    """Return the error with the name of the contender; not of its own type, whose constructor may differ."""
    kind = next(kind for kind in FAILURES if isinstance(error, kind))
    return kind(f"{name}: {error}")


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
    errors: dict[str, Exception] = {}
    pending: deque[list[Future[dict[str, Trace]]]] = deque()

    def learn(names: list[str], block: QueryStream, previous: Future[dict[str, Trace]] | None) -> dict[str, Trace]:
        if previous is not None:
            previous.result()
        own: dict[str, list[Trace]] = {name: [] for name in names}
        # What is transformed for several learners stays in the cache if they take turns.
        pieces = named[names[0]].model.blocks(block) if len(names) > 1 else [block]  # type: ignore[attr-defined]
        for piece in pieces:
            with sharing() if len(names) > 1 else nullcontext():
                for name in names:
                    try:
                        if name not in errors:
                            own[name].append(named[name].learn(piece, measures))
                    except FAILURES as error:
                        errors[name] = _named_failure(name, error)
        return {name: Trace.concatenate(traces) for name, traces in own.items() if name not in errors}

    def finish_oldest() -> None:
        done = {name: trace for future in pending.popleft() for name, trace in future.result().items()}
        for name in [name for name in list(errors) if name not in dropped]:
            if on_error == "raise":
                raise errors[name]
            dropped[name] = str(errors[name]).removeprefix(f"{name}: ")
        done = {name: trace for name, trace in done.items() if name not in dropped}
        for name, trace in done.items():
            parts[name].append(trace)
        if on_block is not None and done:
            on_block(done)

    turns: list[list[str]] = []
    with ThreadPoolExecutor(n_threads) as pool:
        for block in split_blocks(stream):
            before = pending[-1] if turns else repeat(None)
            turns = turns or _turns(named, -(-len(named) // n_threads), is_sparse=block.is_sparse)
            pending.append([pool.submit(learn, *task) for task in zip(turns, repeat(block), before)])
            if len(pending) > 1:  # learners that finish a block early need not wait for the others
                finish_oldest()
        while pending:
            finish_oldest()
    return {name: Trace.concatenate(traces) for name, traces in parts.items() if name not in dropped}


def _turns(named: Mapping[str, Any], most: int, *, is_sparse: bool) -> list[list[str]]:
    """Return the names of learners, together those that transform features alike, but at most so many."""
    groups: list[tuple[Any, list[str]]] = []
    for name, learner in named.items():
        transforms = learner.model.transforms if hasattr(getattr(learner, "model", None), "all_transforms") else []
        alike = (names for others, names in groups if others == transforms and len(names) < most)
        group = next(alike, None) if not is_sparse and may_share(transforms) else None
        if group is None:
            groups.append((transforms, group := []))
        group.append(name)
    return sorted((names for _, names in groups), key=len, reverse=True)  # what takes long begins first


def names_known(rankers: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the features that rankers have learned, by which frames are encoded."""
    names = (getattr(ranker, "feature_names_in_", ()) for ranker in rankers.values())
    return tuple(dict.fromkeys(name for own in names for name in own))


def split_blocks(stream: Blocks, known: Collection[str] = ()) -> Iterator[QueryStream]:
    """Yield the queries of a stream in blocks that stay in the cache; raise if there are none."""
    for block in as_blocks(stream, required=True, known=known):
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
    named = _ungrouped(_candidates(learners, has_vali=False))
    for name, learner in named.items():
        if not isinstance(learner, OnlineRanker):
            raise TypeError(f"learners must be learners, got {type(learner).__name__} for {name!r}")
    return named


def _ungrouped(groups: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    named = {name: each for group in groups.values() for name, each in group.items()}
    if len({id(learner) for learner in named.values()}) < len(named):
        raise ValueError("learners must be distinct objects: one was given twice")
    return named


def numbered_names(rankers: Iterable[Any]) -> dict[str, Any]:
    """Name rankers by their algorithms, numbered where one occurs more than once."""
    several = list(rankers)
    kinds = [getattr(each, "name", getattr(each, "__name__", type(each).__name__)) for each in several]
    named = {}
    for k, (kind, ranker) in enumerate(zip(kinds, several, strict=True)):
        number = kinds[: k + 1].count(kind)
        named[f"{kind} {number}" if kinds.count(kind) > 1 else kind] = ranker
    return named
