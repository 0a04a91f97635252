"""Learning: functions of a learner and of a model that may be changed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

import numpy as np

from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.learners.clicks.impression import answers_in, kinds_in
from perceptrank.learners.model import Model, as_learned, named, transformed
from perceptrank.learners.tally import UPDATES
from perceptrank.measures import NDCG, Measure, parse
from perceptrank.stream.columns import CLICKED, PLACE, RELEVANCE
from perceptrank.stream.memory import check_room
from perceptrank.stream.query_stream import QueryStream, missing_columns
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures
from perceptrank.stream.validation import (
    are_finite,
    as_grades,
    bad_feature,
    check_not_negative,
    find_bad_feature,
    read_only,
)
from perceptrank.transforms.registry import sparse_transforms
from perceptrank.transforms.transform import Transform

if TYPE_CHECKING:
    from perceptrank.learners.learner import Learner

Given = TypeVarTuple("Given")
Result = TypeVar("Result")

LARGEST_RATIO = 1e4  # of the spreads of features
LARGEST_QUERY_WEIGHT = 1e100  # beyond, sums of weighted iterates could overflow
_SEEN = 1000
_FEWEST = 10


def advance(learner: Learner, learn: Callable[[Learner, Model, *Given], Result], *given: *Given) -> Result:
    """Call `learn` on a copy of the model, then replace the model by it: by all that was learned, or nothing."""
    before = after = learner._model
    try:
        with learner._lock:
            before = learner._model
            after = before.copy()
            result = learn(learner, after, *given)
            learner._model = after
        return result
    except BaseException:
        if learner._model is after:  # interrupted between learning and returning
            learner._model = before
        raise


def learn_stream(learner: Learner, model: Model, stream: QueryStream, recorded: list[Measure] | None) -> Trace:
    """Learn a stream, block after block; by default, record the measure that is learned, if there are grades."""
    if len(stream) == 0:
        raise ValueError("the stream has no queries")
    is_graded = RELEVANCE in stream.columns
    if not is_graded and not takes_clicks(learner):
        raise missing_columns(stream, learner.name, (RELEVANCE,))
    if not is_graded and recorded:
        raise ValueError(
            f"{recorded[0]} needs the column 'relevance', and this log of clicks has no grades: learn without "
            "`measures`, and compare models by clicks with `evaluate`"
        )
    if recorded is None:
        recorded = [measure_of(learner)] if is_graded else []
    if not stream.n_features:
        advice = "`feature_paths=…` names a table that has them"
        raise ValueError(f"{learner.name} needs features, and the stream has none: {advice}")
    model.check_features(stream.n_features, stream.feature_names)
    for measure in recorded:
        measure.check_grades(stream.relevance)
    if not model.has_begun and depends_on_scale(learner, model):
        warn_of_spreads(stream)
    model.feature_names, model.n_inputs = stream.feature_names or model.feature_names, stream.n_features
    try:
        return Trace.concatenate(learn_block(learner, model, block, recorded) for block in model.blocks(stream))
    except ValueError:
        model.check_values(stream)
        raise


def takes_clicks(learner: Learner) -> bool:
    """Tell whether a learner, or one that it is made of, learns from clicks."""
    parts = learner.model.learners
    return any(map(takes_clicks, parts)) if parts else learner.takes == "clicks"


def policies_of(learner: Learner) -> tuple[str, ...]:
    """Return the policies whose lists a click learner, and all that it is made of, can learn from; empty if any do."""
    parts = learner.model.members or learner.model.learners
    kinds = [found for found in map(policies_of, parts) if found] if parts else [getattr(learner, "policies", ())]
    return tuple(kind for kind in kinds[0] if all(kind in others for others in kinds)) if kinds else ()


def kinds_of_lists(learner: Learner, stream: QueryStream) -> set[str]:
    """Return the kinds of policies of a log that a click learner is to learn from, none for others."""
    if not takes_clicks(learner):
        return set()
    if not {PLACE, CLICKED} <= stream.columns.keys():
        raise missing_columns(stream, learner.name, (PLACE, CLICKED))
    return kinds_in(stream)


def check_policies(learner: Learner, kinds: set[str]) -> None:
    """Raise if clicks on lists of these kinds of policies teach a click learner nothing."""
    usable = policies_of(learner)
    if usable and not kinds & set(usable):
        known = [kind if kind != "other" else "policies that are not known" for kind in sorted(kinds)]
        advice = "the learner clicks takes these"
        if "uniform" in kinds and "uniform" not in usable:
            advice = "the learner rtop-k takes uniform lists"
        elif not kinds & {"fair-pairs", "plackett-luce", "shuffle"}:
            advice = (
                "a click may then be due to the place alone. Use `examined` if the log has the column examined, "
                "`ips-listwise` with estimates of position bias, or `clicks.judgements`"
            )
        raise ValueError(
            f"{learner.name} learns from lists that were randomised by {' or '.join(usable)}, as the column policy "
            f"says, got {' and '.join(known)}: {advice}"
        )


def check_log(learner: Learner, kinds: set[str]) -> None:
    """Raise if a log of these kinds of policies teaches nothing, unless lists before it did: exploration may pause."""
    if not _has_learned(learner):
        check_policies(learner, kinds)


def _has_learned(learner: Learner) -> bool:
    model = learner.model
    return bool(model.has_begun and model.tally[UPDATES] > 0) or any(map(_has_learned, model.members))


def measure_of(learner: Learner) -> Measure:
    """Return the measure that `learn` records and `score` returns by default: that which is learned, or NDCG@10."""
    inner = learner.model.inner
    return parse(getattr(learner, "measure", NDCG(10))) if inner is None else measure_of(inner)


def learn_block(learner: Learner, model: Model, block: QueryStream, recorded: list[Measure]) -> Trace:
    """Learn a block of a stream, and measure its rankings."""
    first, predicted, weights = model.queries, np.empty(block.n_documents), block.query_weights
    masses = np.ones(len(block)) if weights is None else weights.copy()
    if weights is not None:
        check_weights(learner, model, weights)
    if takes_clicks(learner):
        answers = read_only(answers_in(block, learner.name, needs_chances=bool(policies_of(learner))))
    else:
        answers = block.relevance
    learn_arrays(learner, model, block.X, answers, block.offsets, predicted, masses)
    values = {measure: measure.per_query(predicted, block.relevance, block.offsets, first) for measure in recorded}
    return Trace(values, masses, weights)


def depends_on_scale(learner: Learner, model: Model) -> bool:
    """Tell whether features of a larger scale count for more, and nothing is done about it."""
    if model.transforms:
        return False
    if (inner := learner.model.inner) is not None:
        return depends_on_scale(inner, Model([]))
    return learner.depends_on_scale or any(depends_on_scale(member, member.model) for member in model.members)


def accepts_sparse(learner: Learner, model: Model) -> bool:
    """Tell whether a learner, and all that it is made of, learn from sparse features."""
    if parts := model.learners:
        return all(accepts_sparse(part, part.model) for part in parts)
    return learner.accepts_sparse


def check_weights(learner: Learner, model: Model, weights: Floats) -> None:
    """Raise if queries of these weights, finite and not negative, cannot be learned from."""
    for part in model.learners:
        check_weights(part, part.model, weights)
    model.check_weights(weights)
    if model.learners or (weights == 1.0).all():
        return
    if not learner.accepts_query_weights:
        raise ValueError(
            f"{learner.name} takes no query weights, as {learner.without_query_weights}: all must be 1, got "
            f"{weights[weights != 1.0][0]}; with_query_weights(None) leaves those of a stream out"
        )
    smallest = 1 / LARGEST_QUERY_WEIGHT
    bad = (weights > LARGEST_QUERY_WEIGHT) | ((weights < smallest) & (weights != 0.0))
    if bad.any():
        raise ValueError(
            f"query_weights must be 0, or from {smallest:g} to {LARGEST_QUERY_WEIGHT:g}, got {weights[bad][0]}"
        )


def learn_transforms(learner: Learner, model: Model, X: AnyFeatures, offsets: Ints) -> AnyFeatures:
    """Return features after the transforms of a model, which learn from them first."""
    if not model.transforms:
        return X
    names, learning = model.feature_names, learner.learns and not model.is_held
    return transformed(named(model, model.transforms, names), X, offsets, names, learning=learning)


def learn_arrays(
    learner: Learner, model: Model, X: AnyFeatures, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
) -> None:
    """Learn a block of validated arrays; raise if a value is invalid or something overflows.

    Instead of grades, click learners take a matrix of answers, a row per document: see `clicks.impression`.
    """
    if not model.has_begun:
        begin(learner, model, X.shape[1], sparse=isinstance(X, SparseFeatures))
    first = model.queries
    done = learn_queries(learner, model, as_learned(model, X), relevance, offsets, predicted, masses)
    if done < len(offsets) - 1:
        rows = slice(offsets[done], offsets[done + 1])
        if relevance.ndim == 1:
            as_grades(relevance[rows], len(relevance[rows]))
        transformed_rows = learn_transforms(learner, model, as_learned(model, X[rows]), one_query(len(relevance[rows])))
        if not are_finite(transformed_rows):
            bad = find_bad_feature(X[rows], model.feature_names, keep_missing=model.takes_missing)
            raise bad or bad_feature(transformed_rows, 0, None)
        raise ValueError(
            f"scores or weights overflow at query number {first + done}, counted from the first that was "
            "ever learned: the features, the learning rate or the query weights are too large; scale the "
            "features, for example with `transforms='running'`"
        )


def learn_queries(
    learner: Learner, model: Model, X: AnyFeatures, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
) -> int:
    """Transform and learn a block for which a model has begun; return as `Learner._pass` does."""
    graded = _learning_from_grades(learner, model)
    if not graded:
        X = learn_transforms(learner, model, X, offsets)
        done = learner._pass(model, X, relevance, offsets, predicted, masses)
        model.queries += done
        return done
    if relevance.ndim != 1:
        raise TypeError(f"{learner.name} learns from clicks, and its transform {graded[0]!r} from grades")
    start, n = 0, len(offsets) - 1
    while start < n:
        stop = min(n, *(start + transform.queries_left(masses[start:]) for transform in graded))
        rows, part = slice(offsets[start], offsets[stop]), slice(start, stop)
        own, weights = read_only(offsets[start : stop + 1] - offsets[start]), masses[part].copy()
        features = learn_transforms(learner, model, X[rows], own)
        done = learner._pass(model, features, relevance[rows], own, predicted[rows], masses[part])
        if done < stop - start:
            return start + done
        for transform in graded:
            transform.learn_grades(relevance[rows], own, weights)
        model.queries += done
        start = stop
    return n


def _learning_from_grades(learner: Learner, model: Model) -> list[Transform]:
    """Return the transforms of a model that learn from grades as well, none if they stay as they are."""
    if not model.transforms or model.is_held or not learner.learns:
        return []
    leaves = [leaf for transform in model.transforms for leaf in transform.leaves() if leaf.learns_grades]
    return [leaf for leaf in leaves if not leaf.is_settled]


def begin(learner: Learner, model: Model, n_features: int, *, sparse: bool = False) -> None:
    """Initialise a model for so many features, before the transforms, and tell whether those are sparse."""
    makers = [transform for transform in model.transforms if transform.makes_sparse]
    if (sparse or makers) and not accepts_sparse(learner, model):
        what = "got sparse ones; to_dense() makes a stream dense"
        if not sparse:
            what = f"its transform {makers[0]!r} makes sparse ones"
        raise TypeError(f"{learner.name} learns from dense features only, {what}")
    if sparse:
        model.transforms = sparse_transforms(learner._own_transform())
    sparse = sparse or bool(makers)
    model.n_inputs = n_features
    for transform in model.transforms:
        n_features = transform.n_outputs(n_features)
    if sparse:
        check_room(f"weights of {n_features} features", 2 * n_features)
    weights, signs = model.beginning.weights(model, n_features), model.beginning.signs(model)
    model.begin(n_features, learner.extra_state(n_features), sparse=sparse, weights=weights, signs=signs)
    for member in model.members:
        finds = any(each.wraps and not each.accepts_any_columns for each in member.model.transforms[:1])  # by name
        if not model.transforms and (finds or member.model.beginning.names_features):
            member.model.feature_names = model.feature_names
        begin(member, member.model, model.n_features, sparse=model.is_sparse)
    if model.beginning.ranks:
        model.follow_members()


def ready_model(
    learner: Learner,
    n_features: int | None = None,
    names: tuple[str, ...] | None = None,
    *,
    sparse: bool = False,
    model: Model | None = None,
) -> Model:
    """Return the model that ranks these features, by default those that initial weights name; it may not have begun."""
    model = learner.model if model is None else model
    if n_features is None:
        names = model.beginning.features
        n_features = len(names or ())
    if model.has_begun or not model.beginning.ranks or not n_features:
        return model
    ready = model.copy()
    ready.feature_names = names
    begin(learner, ready, n_features, sparse=sparse)
    return ready


def learn_query(
    learner: Learner, model: Model, X: AnyFeatures, names: tuple[str, ...] | None, grades: Floats, weight: float
) -> bool:
    """Learn one query; return whether there was an update."""
    model.check_features(X.shape[1], names)
    model.feature_names, model.n_inputs = names or model.feature_names, X.shape[1]
    predicted, masses = np.empty(len(grades)), np.empty(1)
    masses[0] = 1.0  # `np.ones` takes a microsecond longer
    if weight != 1.0:
        masses[0] = check_not_negative("weight", weight)
        check_weights(learner, model, masses)
    learn_arrays(learner, model, read_only(X), read_only(grades), one_query(len(grades)), predicted, masses)
    return bool(masses[0] > 0.0)


def warn_of_spreads(stream: QueryStream) -> None:
    """Warn if features differ so much in spread, over the first documents, that the largest decide alone."""
    X = next(stream.blocks()).X[:_SEEN].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        spreads = magnitudes(X) if isinstance(X, SparseFeatures) else X.std(axis=0)
    spreads = spreads[(spreads > 0) & np.isfinite(spreads)]
    if len(spreads) and spreads.max() / spreads.min() > LARGEST_RATIO:
        warnings.warn(
            f"features differ in spread by a factor of {spreads.max() / spreads.min():.1g}: the largest decide alone; "
            "transforms='auto', or 'running' for weights of single features (--transform on the command line), puts "
            "them on one scale",
            UserWarning,
            stacklevel=5,
        )


def magnitudes(X: SparseFeatures) -> Floats:
    """Return the root mean squares of the non-zeros of features that have several: one says little about a scale."""
    chosen = slice(X.starts[0], X.starts[-1])
    _, feature, counts = np.unique(X.indices[chosen], return_inverse=True, return_counts=True)
    squares = np.bincount(feature, X.values[chosen] ** 2, len(counts))
    return np.sqrt((squares / counts)[counts >= _FEWEST])


@cache
def one_query(m: int) -> Ints:
    """Return the offsets of a block that is a single query."""
    return read_only(np.array([0, m]))
