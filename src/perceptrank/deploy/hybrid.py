"""Learning the weights of a hybrid query from judged queries and the scores of its clauses."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from perceptrank.deploy.agreement import Parity, parity
from perceptrank.deploy.engines.hybrid_request import read_request
from perceptrank.deploy.exports import export
from perceptrank.deploy.folding import fold
from perceptrank.deploy.target import Export
from perceptrank.evaluation.evaluation import Evaluation
from perceptrank.evaluation.holdout import evaluate
from perceptrank.kernels.arrays import Floats
from perceptrank.learners.fixed import FixedRanker
from perceptrank.learners.listwise.perceptron import ListwisePerceptron
from perceptrank.measures import MeasureLike, parse
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import ParameterError, as_number, check_seed
from perceptrank.transforms.hybrid_scores import HybridScores

_PASSES = 3  # of the perceptron over the queries to learn from
_STEPS = 10  # of a clause's share, from 0 to 1
_ROUNDS = 3  # each of which changes the share of one clause
_MOST_IN_FULL = 3  # clauses of which all shares in these steps are tried, too
_SURE = 0.25  # standard errors by which other weights must be better on the queries learned from
_DIGITS = 3


@dataclass(frozen=True, repr=False)
class HybridResult:
    """Learned weights of a hybrid query, and whether they are better than those in use.

    Attributes
    ----------
    model : FixedRanker
        Ranks by the learned weights, normalizing scores as the engine does.
    weights, current : dict of str to float
        Weights by clause, which add up to 1: those that were learned, and those in use.
    evaluation : Evaluation
        Both on the queries held out, the current weights with the current normalization; its `verdict` decides.
    learned : int
        Number of queries learned from.
    parity : Parity
        The emulated engine's ranking of all queries compared with the model's.
    export : Export
        The pipeline or request.
    """

    model: FixedRanker
    weights: dict[str, float]
    current: dict[str, float]
    evaluation: Evaluation
    learned: int
    parity: Parity
    export: Export

    def __repr__(self) -> str:
        return f"HybridResult({self.weights}: {self.evaluation.answer})"


def learn_hybrid(
    stream: QueryStream,
    scores: HybridScores | None = None,
    *,
    current: str | Path | None = None,
    measure: MeasureLike = "ndcg@10",
    hold_out: float = 0.3,
    margin: float = 0.0,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> HybridResult:
    """Learn the weights of a hybrid query's clauses, and decide if they may replace those in use.

    Weights are learned from some queries, evaluated on a random part that is held out, and exported.

    Parameters
    ----------
    stream : QueryStream
        All documents that a clause returned, with grade 0 if nobody has judged them; a feature per clause, in the order
        of the query: its score, NaN for documents that it did not return.
    scores : HybridScores, optional
        Engine and normalization; by default those of `current`, or min_max by OpenSearch.
    current : path, optional
        Pipeline of OpenSearch or request of Elasticsearch in use, as JSON. Without one, the incumbent is equal weights.
    measure : str or Measure
        What is learned, and decides.
    hold_out : float
        Share of the queries to evaluate with, between 0 and 1.
    margin : float
        Largest acceptable drop of the mean: 0 if the learned weights must be better.
    confidence : float
        Confidence level of the interval, between 0 and 1.
    seed : int
        Seed of the draw.
    progress : callable, optional
        Called with the number of steps done and in total.

    Raises
    ------
    ValueError
        If hybrid search cannot rank by these features, `current` is for others, or an argument is invalid.

    Examples
    --------
    >>> import numpy as np, perceptrank as pr
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((2400, 2)).astype(np.float32)
    >>> grades = (X @ [0.9, 0.1] > 0.6).astype(int)
    >>> stream = pr.QueryStream.from_arrays(X, grades, group=[8] * 300, feature_names=["text", "vector"])
    >>> result = learn_hybrid(stream, pr.HybridScores("opensearch", "min_max"))
    >>> result.evaluation.answer, result.parity.agrees, result.weights["text"] > 0.8
    ('yes', True, True)
    """
    request = None if current is None else read_request(current)
    scores = scores or (HybridScores() if request is None else request.scores)
    names = stream.feature_names or tuple(f"f{place}" for place in range(1, stream.n_features + 1))
    d, known = len(names), parse(measure)
    if request is not None and request.weights is not None and len(request.weights) != d:
        raise ValueError(
            f"{current} has {len(request.weights)} weights, and there are {d} clauses: {', '.join(names)}; name the "
            "columns of the clauses, in the order of the query (--clauses NAMES)"
        )
    before = np.ones(d) if request is None or request.weights is None else np.array(request.weights)
    before = before / before.max()  # whose sum cannot overflow
    before = before / before.sum()
    learning, held = _split(stream, hold_out, seed)
    incumbent = _ranker(before, request.scores if request else scores, stream)
    found = learn_weights(scores.transform(learning), before, known, progress)
    model = _ranker(found, scores, stream)
    options = {} if current is None else {"current": str(current)}
    exported = export(model, "hybrid", **options)  # raises before anything is measured
    result = evaluate(
        {"current": incumbent, "learned": model}, held, [known], margin=margin, confidence=confidence, worst=0
    )
    learned, now = (dict(zip(names, weights.tolist(), strict=True)) for weights in (found, before))
    return HybridResult(model, learned, now, result, len(learning), parity(model, stream, "hybrid"), exported)


def _split(stream: QueryStream, hold_out: float, seed: int) -> tuple[QueryStream, QueryStream]:
    share = as_number(hold_out)
    if not 0.0 < share < 1.0:
        raise ParameterError("hold_out", "must be between 0 and 1", hold_out)
    n_held = round(len(stream) * share)
    if not 0 < n_held < len(stream):
        raise ParameterError("hold_out", f"must leave queries on both sides, of {len(stream)}", hold_out)
    check_seed(seed)
    order = np.random.default_rng(seed).permutation(len(stream))
    return stream[np.sort(order[n_held:])], stream[np.sort(order[:n_held])]


def _ranker(weights: Floats, scores: HybridScores, stream: QueryStream) -> FixedRanker:
    ranker = FixedRanker(weights, transforms=[scores])
    ranker.learn(stream[:1])  # the names of the features
    return ranker


def _rounded(weights: Floats) -> Floats:
    shares: Floats = np.round(weights / weights.sum(), _DIGITS)
    shares[np.argmax(shares)] += 1.0 - shares.sum()
    return shares.round(_DIGITS)


def learn_weights(
    normalized: QueryStream,
    start: Floats,
    measure: MeasureLike = "ndcg@10",
    progress: Callable[[int, int], object] | None = None,
) -> Floats:
    """Return weights ≥ 0 that add up to 1, for clauses whose scores `HybridScores` has normalized.

    The listwise perceptron takes a few passes, with weights ≥ 0 of standardized scores, which fold into weights of the
    scores. Then the share of one clause at a time is moved in tenths; of up to three clauses, all weights in tenths are
    tried, too. Weights other than those at the start have three digits, and are taken only if the mean of the measure
    is better by a quarter of a standard error of the differences.
    """
    d = normalized.n_features
    best = np.asarray(start, np.float64)
    values = _values(best, normalized, measure)
    if not len(values):
        raise ValueError(
            f"no query counts for {measure} among the {len(normalized)} to learn from: hits must have a grade above 0"
        )
    ranker = ListwisePerceptron(measure, transforms="running", positive=list(range(d)))
    for _ in range(_PASSES):
        ranker.learn(normalized)
    candidates = [_rounded(fold(ranker).weights)] if ranker.coef_.any() else []
    for turn in range(_ROUNDS + 1):
        tried = [(_values(weights, normalized, measure), weights) for weights in candidates]
        better = max(tried, key=lambda each: float(each[0].mean()), default=(values, best))
        gains = better[0] - values
        is_better = gains.mean() > _SURE * gains.std() / np.sqrt(len(gains)) and gains.mean() > 0.0
        if is_better:
            values, best = better
        elif turn:
            break
        candidates = [_with_share(best, j, step / _STEPS) for j in range(d) for step in range(_STEPS + 1)]
        if turn == 0 and d <= _MOST_IN_FULL:
            shares = product(range(_STEPS + 1), repeat=d)
            candidates += [np.array(steps) / _STEPS for steps in shares if sum(steps) == _STEPS]
        if progress is not None:
            progress(turn + 1, _ROUNDS + 1)
    return best


def _with_share(weights: Floats, j: int, share: float) -> Floats:
    """Return weights of which one has a share, and the others the rest in their proportion, equal if all are 0."""
    others = weights.copy()
    others[j] = 0.0
    if not others.any():
        others = np.ones(len(weights))
        others[j] = float(len(weights) == 1)
    moved = (1.0 - share) * others / others.sum()
    moved[j] += share
    return _rounded(moved)


def _values(weights: Floats, normalized: QueryStream, measure: MeasureLike) -> Floats:
    known = parse(measure)
    values: Floats = evaluate(FixedRanker(weights), normalized, [known]).values(known)
    return values[~np.isnan(values)]
