"""Hold-out evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, overload

import numpy as np

from perceptrank.clicks.policies import policy_kinds
from perceptrank.evaluation.comparing import names_known, numbered_names, split_blocks
from perceptrank.evaluation.contenders import FAILURES, Scorer, as_scorer, one_per_document
from perceptrank.evaluation.evaluation import Evaluation
from perceptrank.evaluation.off_policy import ClickValues, count_policies, describe_policies, refusal
from perceptrank.evaluation.slices import By, LabelCollector
from perceptrank.evaluation.trace import Trace
from perceptrank.evaluation.worst import WorstQueries
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.kernels.processors import n_processors
from perceptrank.measures import Measure, MeasureLike, parse_all
from perceptrank.measures.of_clicks import ClickMeasure
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.columns import CLICKED, RELEVANCE, USER_QUERY
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.texts import Texts
from perceptrank.stream.validation import ParameterError, check_confidence, check_not_negative, check_seed, is_whole


@overload
def evaluate(
    ranker: Scorer | Callable[[QueryStream], Any],
    stream: Blocks,
    measures: Iterable[MeasureLike] | MeasureLike | None = None,
) -> Trace: ...
@overload
def evaluate(
    ranker: Mapping[str, Any] | Iterable[Any],
    stream: Blocks,
    measures: Iterable[MeasureLike] | MeasureLike | None = None,
    *,
    by: By | None = None,
    margin: float = 0.0,
    confidence: float = 0.95,
    worst: int = 10,
    seed: int = 0,
) -> Evaluation: ...
def evaluate(
    ranker: Any,
    stream: Blocks,
    measures: Iterable[MeasureLike] | MeasureLike | None = None,
    *,
    by: By | None = None,
    margin: float = 0.0,
    confidence: float = 0.95,
    worst: int = 10,
    seed: int = 0,
) -> Trace | Evaluation:
    """Evaluate a ranker, or several, on queries that they have not learned from, without learning.

    Of several, the first is the incumbent, which ranks now; the others are challengers, and the result says which of
    them may replace it. All rank the same queries, in one pass over the data, and means are by query weight. A ranker
    that knows the names of its features takes those columns of data that has others too.

    A log of clicks needs no grades: the measures ``preferences`` and ``clicks@k`` compare rankers by the clicks on
    lists that a policy has randomised. Impressions of the same ``user_query`` are not taken for independent.

    Parameters
    ----------
    ranker : ranker, or list or mapping from names of them
        A learner, or anything else with ``scores(stream)``; a fitted model of another library, with ``predict(X)``; or
        a function that returns the scores of a stream. Without names, several are named by their algorithms.
    stream : QueryStream or iterable of QueryStream
    measures : str, Measure, or several, optional
        Of several rankers, the first measure decides. By default "ndcg@10" and "ap"; for impressions without grades
        "preferences".
    by : array, mapping, or str, optional
        Slices of the queries, for several rankers: one label per query, a mapping from query ids to labels, "length"
        for the number of documents, or "feature:NAME" for a feature's mean over a query's documents. Numbers of more
        than ten different values are grouped by quarters.
    margin : float
        Largest acceptable drop of the mean: 0 if a challenger must be better, 0.005 if it may be worse by that much.
    confidence : float
        Confidence level of the intervals, between 0 and 1.
    worst : int
        Number of queries to keep, for each challenger and measure, that lost most.
    seed : int
        Seed of the resampling.

    Raises
    ------
    ValueError
        If there are no queries, a feature of a ranker is missing, or a measure skips all queries of several rankers.

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.separable(300, n_features=5, seed=1).stream
    >>> now, new = pr.FixedRanker([1.0, 0, 0, 0, 0]), pr.ListwisePerceptron()
    >>> _ = new.learn(stream[:150])
    >>> result = evaluate({"now": now, "new": new}, stream[150:], ["ndcg@10", "ap"], by="length")
    >>> result.may_go_live, result.verdict.split(":")[:2]
    (True, ['Yes', ' new may replace now'])
    """
    ranks = any(hasattr(ranker, method) for method in ("scores", "predict", "__call__"))
    if ranks or not isinstance(ranker, Iterable):
        ranker = as_scorer("ranker", ranker)
        blocks, chosen = _choose(stream, measures, names_known({"": ranker}))
        if by is not None:
            raise ParameterError("by", "applies to several rankers, of which the first is the incumbent", by)
        trace = trace_rankings([{"": ranker}], blocks, chosen, 1)[0][""]
        for measure in chosen:
            if isinstance(measure, ClickMeasure) and np.isnan(trace.values(measure)).all():
                raise refusal(measure, {})
        return trace
    check_not_negative("margin", margin)
    check_confidence(confidence)
    if not is_whole(worst) or worst < 0:
        raise ParameterError("worst", "must be a whole number >= 0", worst)
    check_seed(seed)
    named = _named(ranker)
    blocks, chosen = _choose(stream, measures, names_known(named))
    if not chosen:
        raise ValueError("measures must name at least one measure, got none")
    incumbent, *challengers = named
    rankers = {name: _NamedRanker(name, own, is_challenger=name in challengers) for name, own in named.items()}
    kept = {(name, measure): WorstQueries(worst, measure) for name in challengers for measure in chosen}
    labels = None if by is None else LabelCollector(by)
    traces: dict[str, list[Trace]] = {name: [] for name in rankers}
    queries: list[Any] = []  # of each block: ids, numbers of documents, kinds of policies, what users asked
    n_queries = n_rows = 0
    with ThreadPoolExecutor(min(len(rankers), n_processors())) as pool:
        for block in split_blocks(blocks):
            futures = {name: pool.submit(own.measure, block, chosen, n_queries) for name, own in rankers.items()}
            results = {name: future.result() for name, future in futures.items()}
            for name, (_, values) in results.items():
                traces[name].append(Trace(values, np.zeros(len(block)), block.query_weights))
            for (name, measure), worst_of in kept.items() if worst else ():
                old, new = results[incumbent], results[name]
                worst_of.add(block, (n_queries, n_rows), (old[1][measure], new[1][measure]), (old[0], new[0]))
            if labels is not None:
                labels.add(block)
            asked = block.columns.get(USER_QUERY, Texts.empty(len(block)))
            queries.append((block.qids, np.diff(block.offsets), policy_kinds(block)[0], asked))
            n_queries, n_rows = n_queries + len(block), n_rows + block.n_documents
    qids, sizes, kinds, user_queries = zip(*queries, strict=True)
    together = {name: Trace.concatenate(parts) for name, parts in traces.items()}
    weights = together[incumbent].query_weights
    policies: dict[str, tuple[int, int]] = {}
    for measure in chosen:
        left_out = np.isnan(together[incumbent].values(measure))
        if isinstance(measure, ClickMeasure):
            own_policies = count_policies(np.concatenate(kinds), ~left_out)
            if left_out.all():
                raise refusal(measure, own_policies)
            if not any(np.nan_to_num(own.values(measure)).any() for own in together.values()):
                raise ValueError(f"{measure} needs clicks, and none counts; {describe_policies(own_policies)}")
            policies = policies or own_policies
        if left_out.all():
            raise ValueError(f"no query counts for {measure}: it leaves out all of them")
        if weights is not None and not weights[~left_out].any():
            raise ValueError(f"no query counts for {measure}: all that it does not leave out have weight 0")
    for name, own in rankers.items():
        own.clicks.check(name)
    all_qids, all_sizes = np.concatenate(qids), np.concatenate(sizes)
    groups = None if labels is None else labels.labels(n_queries)
    settings = float(margin), float(confidence), policies, _clusters(Texts.concatenate(list(user_queries)))
    return Evaluation(together, all_qids, all_sizes, weights, *settings, kept, groups, int(worst), int(seed))


def _choose(stream: Blocks, measures: Any, known: Sequence[str]) -> tuple[Iterator[QueryStream], list[Measure]]:
    """Return the blocks of a stream, and the measures, which depend on its first block if none are given."""
    blocks = as_blocks(stream, required=True, known=known)
    if measures is not None:
        return blocks, parse_all(measures)
    first = next(blocks)
    is_log = RELEVANCE not in first.columns and CLICKED in first.columns
    return chain([first], blocks), parse_all(["preferences"] if is_log else ["ndcg@10", "ap"])


def _clusters(user_queries: Texts) -> Ints | None:
    """Return the number of each impression's user query; one without a text is alone. None if all are different."""
    hashes = user_queries.hashes()
    numbers = np.unique(hashes, return_inverse=True)[1]
    numbers = np.where(user_queries.lengths > 0, numbers, len(hashes) + np.arange(len(hashes)))
    return numbers if len(np.unique(numbers)) < len(numbers) else None


def trace_rankings(
    orders: Sequence[Mapping[str, Any]],
    blocks: Iterable[QueryStream],
    measures: list[Measure],
    n_threads: int,
    failed: dict[str, str] | None = None,
) -> list[dict[str, Trace]]:
    """Rank queries in one pass with the rankers of all orders, by name; note in `failed` those that cannot, and why."""
    rankers = [(k, name, _NamedRanker(name, ranker)) for k, own in enumerate(orders) for name, ranker in own.items()]
    parts: list[dict[str, list[Trace]]] = [{name: [] for name in own} for own in orders]
    first = 0
    with ThreadPoolExecutor(n_threads) as pool:
        for block in blocks:
            futures = [pool.submit(ranker.measure, block, measures, first) for _, _, ranker in rankers]
            for (k, name, _), future in zip(rankers, futures, strict=True):
                try:
                    parts[k][name].append(Trace(future.result()[1], np.zeros(len(block)), block.query_weights))
                except FAILURES as error:
                    if failed is None:
                        raise
                    failed.setdefault(name, str(error).removeprefix(f"{name}: "))
            rankers = [each for each in rankers if each[1] not in (failed or {})]
            first += len(block)
    for _, name, ranker in rankers:
        ranker.clicks.check(name)
    kept = {name for _, name, _ in rankers}
    return [{name: Trace.concatenate(traces) for name, traces in own.items() if name in kept} for own in parts]


def _named(rankers: Any) -> dict[str, Scorer]:
    named = dict(rankers) if isinstance(rankers, Mapping) else numbered_names(rankers)
    if len({str(name) for name in named}) < len(named):
        raise ValueError(f"names of rankers must differ as text, got {', '.join(map(repr, named))}")
    if len(named) < 2:
        raise ValueError(
            f"of several rankers the first is compared with the others: give two or more, got {len(named)}"
        )
    return {str(name): as_scorer(str(name), ranker) for name, ranker in named.items()}


class _NamedRanker:
    """A ranker that is given the columns it knows, whatever others the data has; its name, if any, is in its errors."""

    def __init__(self, name: str, ranker: Any, *, is_challenger: bool = False) -> None:
        self._name, self._ranker = name, ranker
        self.clicks = ClickValues(is_challenger=is_challenger)
        self._features = tuple(getattr(ranker, "feature_names_in_", ()))
        self._selects = False

    def measure(self, block: QueryStream, measures: list[Measure], first: int) -> tuple[Floats, dict[Measure, Floats]]:
        """Return scores, and the values of measures for the queries of a block, of which the first has this number."""
        try:
            scores = self._scores(block)
        except ValueError as error:
            if not self._name:
                raise
            raise ValueError(f"{self._name}: {error}") from error
        values: dict[Measure, Floats] = {}
        for measure in dict.fromkeys(measures):
            if isinstance(measure, ClickMeasure):
                values[measure] = self.clicks.values(measure, block, scores)
                continue
            measure.check_grades(block.relevance)
            values[measure] = measure.per_query(scores, block.relevance, block.offsets, first)
        return scores, values

    def _scores(self, block: QueryStream) -> Floats:
        if not self._selects:
            try:
                return one_per_document(self._ranker.scores(block), block)
            except ValueError:
                if not self._features or block.feature_names in (None, self._features):
                    raise
                self._selects = True
        return one_per_document(self._ranker.scores(self._selected(block)), block)

    def _selected(self, block: QueryStream) -> QueryStream:
        names = block.feature_names or ()
        missing = [name for name in self._features if name not in names]
        if missing:
            shown = ", ".join(map(repr, missing[:10])) + (", …" if len(missing) > 10 else "")
            raise ValueError(f"the data has no column {shown}; it has {', '.join(map(repr, names[:20]))}")
        return block.select(self._features)
