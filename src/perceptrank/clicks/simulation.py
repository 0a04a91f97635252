"""Simulated impressions: graded queries are ranked, shown and clicked."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from perceptrank.clicks.lists import pad
from perceptrank.clicks.policies import Policy, Shown
from perceptrank.clicks.policies import policy as as_policy
from perceptrank.clicks.users.user import User, check_user
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.stream.blocks import Blocks, Scan, as_blocks, check_repeatable
from perceptrank.stream.columns import take_rows
from perceptrank.stream.query_stream import BLOCK_BYTES, QueryStream, missing_columns
from perceptrank.stream.sparse import SparseFeatures
from perceptrank.stream.texts import Texts
from perceptrank.stream.validation import as_numbers, as_scores, check_flag, check_positive_whole, check_seed

_BLOCK_DOCUMENTS = 2**17


def simulate_clicks(
    stream: Blocks,
    user: User,
    *,
    ranker: Any = None,
    policy: str | Policy = "none",
    n: int = 10,
    impressions: int | None = None,
    shown_only: bool = False,
    seed: int = 0,
) -> QueryStream:
    """Simulate impressions: rank graded queries, show the best documents to a user, and record the clicks.

    Each query of the result is one impression, numbered from 0. It keeps documents, features and grades, and has the
    columns ``place``, ``clicked``, ``examined`` and ``propensity`` per document, ``policy`` and ``user_query``, the
    identifier of the query, per impression. Documents without an id are named by their number in the query, from 1.

    Parameters
    ----------
    stream : QueryStream or iterable of blocks
        Graded queries.
    user : User
        Such as ``pr.clicks.user("navigational")``.
    ranker : Learner, anything with `scores(stream)`, or array of weights, optional
        By default documents stay in their order.
    policy : str or Policy
        Exploration policy, such as "fair-pairs" or ``pr.clicks.PlackettLuce(0.5)``; see `perceptrank.clicks.policy`.
    n : int
        Number of documents to show; shorter lists are shown in full.
    impressions : int, optional
        Number of impressions: queries are drawn uniformly. By default each query is shown once, in order.
    shown_only : bool
        Leave out documents that are not shown; by default they are kept, with place 0.
    seed : int
        Seed of the queries drawn, of the policy and of the user.

    Examples
    --------
    >>> import perceptrank as pr
    >>> graded = pr.mslr_shaped(20, n_documents=12, n_features=4)
    >>> log = simulate_clicks(graded, pr.clicks.user("navigational"), policy="fair-pairs", impressions=1000)
    >>> log
    QueryStream(1000 queries, 10515 documents, 4 features, 8547 shown, 1270 clicked)
    >>> log[0].qid, log.columns["user_query"][0], log.columns["policy"][0], log.place[:4].tolist()
    (0, '17', 'fair-pairs:2', [1, 2, 3, 4])
    """
    return QueryStream.concatenate(
        scan_simulated_clicks(
            stream, user, ranker=ranker, policy=policy, n=n, impressions=impressions, shown_only=shown_only, seed=seed
        )
    )


def scan_simulated_clicks(
    stream: Blocks,
    user: User,
    *,
    ranker: Any = None,
    policy: str | Policy = "none",
    n: int = 10,
    impressions: int | None = None,
    shown_only: bool = False,
    seed: int = 0,
) -> Scan:
    """Simulate impressions block by block, for more than fit in memory; parameters are those of `simulate_clicks`.

    The blocks can be iterated again, and are then the same.

    Examples
    --------
    >>> import perceptrank as pr
    >>> graded = pr.mslr_shaped(20, n_documents=12, n_features=4)
    >>> log = scan_simulated_clicks(graded, pr.clicks.user("perfect"), impressions=100_000)
    >>> log, sum(len(block) for block in log)
    (Scan(simulated clicks), 100000)
    """
    check_user("user", user)
    check_positive_whole("n", n)
    check_flag("shown_only", shown_only)
    check_seed(seed)
    check_repeatable(stream)
    if impressions is not None:
        check_positive_whole("impressions", impressions)
        if not isinstance(stream, QueryStream):
            raise TypeError(f"stream must be a QueryStream if impressions are drawn, got {type(stream).__name__}")
    chosen = as_policy(policy)

    def start() -> Iterator[QueryStream]:
        drawing, showing, clicking = (np.random.default_rng([seed, i]) for i in range(3))
        first = 0
        for block, scores in _ranked(stream, ranker, impressions, drawing):
            shown = chosen.show(pad(scores, block.offsets), int(n), showing)
            log = _record(block, shown, user, clicking, first)
            yield _without_unshown(log) if shown_only else log
            first += len(block)

    return Scan(start, "simulated clicks")


def _ranked(
    stream: Blocks, ranker: Any, impressions: int | None, rng: np.random.Generator
) -> Iterator[tuple[QueryStream, Floats]]:
    """Yield the queries of impressions in blocks, with the scores of their documents."""
    if impressions is None or not isinstance(stream, QueryStream):
        for block in as_blocks(stream, required=True):
            for part in map(_name_all, block.blocks()):
                for cut in _cuts(np.diff(part.offsets), _BLOCK_DOCUMENTS):
                    yield part[cut], _scores(part[cut], ranker)
        return
    if not len(stream):
        raise ValueError("the stream has no queries")
    scores = np.concatenate([_scores(block, ranker) for block in stream.blocks()])
    queries = rng.integers(stream.n_queries, size=impressions)
    stream = _name_all(stream)
    sizes = np.diff(stream.offsets)
    bytes_per_document = max(1, stream.X.nbytes // stream.n_documents)
    for cut in _cuts(sizes[queries], min(_BLOCK_DOCUMENTS, BLOCK_BYTES // bytes_per_document)):
        block = stream[queries[cut]]
        moved = np.repeat(stream.offsets[queries[cut]] - block.offsets[:-1], np.diff(block.offsets))
        yield block, scores[np.arange(block.n_documents) + moved]


def _cuts(sizes: Ints, most: int) -> Iterator[slice]:
    """Cut consecutive lists into parts of at most so many documents, except for a single list that has more."""
    ends, start = np.cumsum(sizes), 0
    while start < len(sizes):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield slice(start, stop)
        start = stop


def _scores(block: QueryStream, ranker: Any) -> Floats:
    if ranker is None:
        return np.zeros(block.n_documents)
    if hasattr(ranker, "scores"):
        scores = as_scores(ranker.scores(block))
    else:
        weights = as_numbers("ranker", ranker).astype(np.float64)
        if weights.shape != (block.n_features,):
            raise ValueError(
                f"ranker must have scores(stream), or be one weight per feature ({block.n_features}), got "
                f"{type(ranker).__name__} of shape {weights.shape}"
            )
        if not np.isfinite(weights).all():
            i = int(np.argmax(~np.isfinite(weights)))
            raise ValueError(f"ranker must be finite, got {weights[i]} at feature {i}")
        X = block.X.to_scipy() if isinstance(block.X, SparseFeatures) else block.X
        scores = as_scores(X @ weights)
    if len(scores) != block.n_documents:
        raise ValueError(f"ranker must score each of the {block.n_documents} documents, got {len(scores)} scores")
    return scores


def _name_all(block: QueryStream) -> QueryStream:
    """Return graded queries with names of what the user asked and of documents, and without earlier times."""
    if "relevance" not in block.columns:
        raise missing_columns(block, "simulate_clicks", ("relevance",))
    columns: dict[str, Any] = {"time": None, "session": None}
    if "user_query" not in block.columns:
        columns["user_query"] = Texts(map(str, block.qids.tolist()))
    if block.docids is None:
        columns["docid"] = 1 + np.arange(block.n_documents) - np.repeat(block.offsets[:-1], np.diff(block.offsets))
    return block.with_columns(columns)


def _record(block: QueryStream, shown: Shown, user: User, rng: np.random.Generator, first: int) -> QueryStream:
    """Return queries as impressions, numbered from `first`: what was shown, and what the user did."""
    is_shown = shown.order >= 0
    rows = (shown.order + block.offsets[:-1, None])[is_shown]
    grades = np.full(shown.order.shape, np.nan)
    grades[is_shown] = block.relevance[rows]
    response = user.respond(grades, rng)

    def by_document(values: npt.NDArray[Any], fill: float = 0.0) -> Floats:
        column = np.full(block.n_documents, fill)
        column[rows] = values[is_shown]
        return column

    return block.with_columns(
        {
            "qid": np.arange(first, first + len(block)),
            "place": by_document(np.broadcast_to(np.arange(1, shown.order.shape[1] + 1), shown.order.shape)),
            "clicked": by_document(response.clicked),
            "examined": by_document(response.examined),
            "propensity": by_document(shown.propensity, np.nan),
            "policy": Texts(shown.policy.tolist()),
        }
    )


def _without_unshown(log: QueryStream) -> QueryStream:
    rows = np.flatnonzero(np.asarray(log.place) > 0)
    documents, offsets = take_rows(log._documents, rows), np.searchsorted(rows, log.offsets)
    return QueryStream._trusted(log.X[rows], offsets, documents, log._queries, log.feature_names)
