"""Linear rankers: weights, the transforms before them, and scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.kernels.scoring import score_rows
from perceptrank.learners.estimator import Estimator
from perceptrank.learners.guarantees import Guaranteed
from perceptrank.learners.sparse_rounds import score_by_table
from perceptrank.learners.starting import FeatureNames, InitialWeights
from perceptrank.learners.state import State
from perceptrank.learners.tally import ROUNDS, UPDATES
from perceptrank.stream.grouping import group_rows
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import AnyFeatures, SparseFeatures
from perceptrank.stream.validation import (
    are_finite,
    as_any_features,
    as_identifiers,
    bad_feature,
    check_positive_whole,
    column_names,
    find_bad_feature,
    read_only,
    warn_renamed,
)
from perceptrank.transforms.transform import Transform, TransformLike, checked

TRANSFORMED_BYTES = 2**21
_WIDEST_BYTES = 2**24

_NO_QUERIES: Ints = np.zeros(0, dtype=np.int64)  # where nothing depends on them


class LinearRanker(Guaranteed, Estimator):
    """Score = transformed features . weights, and everything that can be read from a learned state."""

    average: bool = False
    transforms: TransformLike = None
    initial_weights: InitialWeights = None
    positive: FeatureNames = None
    negative: FeatureNames = None
    zero: FeatureNames = None

    _state: State

    # Ranking

    def predict(
        self, X: npt.ArrayLike | QueryStream, *, qid: npt.ArrayLike | None = None, group: npt.ArrayLike | None = None
    ) -> Floats:
        """Return one score per document; the larger, the better.

        Before anything was learned, they are those by the initial weights, all 0 if there are none.

        Parameters
        ----------
        X : array of shape (documents, features), sparse matrix, data frame or QueryStream
            The documents.
        qid, group : array, optional
            Query of each document, or number of documents of each query, for transforms within queries. Without them, X
            is one query.

        Returns
        -------
        array of float of shape (documents,)

        Raises
        ------
        ValueError
            If a feature is invalid, the features are not those that were learned, both `qid` and `group` are given, or
            scores overflow.
        """
        if isinstance(X, QueryStream):
            return self.scores(X)
        state = self._state
        features, names = as_named_features(X)
        self._check_features(state, features.shape[1], names)
        state = self._ready(state, features.shape[1], names, sparse=isinstance(features, SparseFeatures))
        if qid is not None:
            if group is not None:
                raise ValueError("give qid or group, not both")
            identifiers = as_identifiers(qid)
            if identifiers.shape != (len(features),):
                raise ValueError(f"qid must have one entry per document ({len(features)}), got {identifiers.shape}")
        if len(features) == 0 or (group is None and not self._has_transforms(state)):
            return self._block_scores(state, features, _NO_QUERIES, state.feature_names)
        names, grades = names or state.feature_names, np.zeros(len(features))
        if qid is None:
            stream = QueryStream.from_arrays(features, grades, group=group, feature_names=names, missing="keep")
            return self._scores_of(state, stream)
        rows, _, _ = group_rows(identifiers, len(features))
        ordered = slice(None) if rows is None else rows
        scores = np.empty(len(features))
        stream = QueryStream.from_arrays(
            features[ordered],
            grades,
            qid=identifiers[ordered],
            feature_names=names,
            missing="keep",
        )
        scores[ordered] = self._scores_of(state, stream)
        return scores

    def scores(self, stream: QueryStream) -> Floats:
        """Return the scores of all documents of a stream, features transformed query by query.

        Parameters
        ----------
        stream : QueryStream
            Its grades are not looked at.

        Returns
        -------
        array of float of shape (documents,)

        Raises
        ------
        ValueError
            If a feature is invalid, the features are not those that were learned, or scores overflow.
        """
        return self._scores_of(self._state, stream)

    def _scores_of(self, state: State, stream: QueryStream) -> Floats:
        self._check_features(state, stream.n_features, stream.feature_names)
        state = self._ready(state, stream.n_features, stream.feature_names, sparse=stream.is_sparse)
        scores = np.empty(stream.n_documents)
        start = 0
        names = stream.feature_names or state.feature_names
        try:
            for block in self._blocks(state, stream):
                scores[start : start + block.n_documents] = self._block_scores(state, block.X, block.offsets, names)
                start += block.n_documents
        except ValueError:
            self._check_values(state, stream)
            raise
        return scores

    def _ready(self, state: State, n_features: int, names: tuple[str, ...] | None, *, sparse: bool) -> State:
        """Return a state to rank these features with: if nothing was learned, that of the initial weights."""
        return state

    def _check_values(self, state: State, stream: QueryStream) -> None:
        """Raise if a feature has a value that cannot be taken, such as one that is missing; passes notice only that."""
        start = 0
        for block in stream.blocks():
            bad = find_bad_feature(
                block.X, stream.feature_names, keep_missing=self._takes_missing(state), first_row=start
            )
            if bad is not None:
                raise bad from None
            start += block.n_documents

    def _takes_missing(self, state: State) -> bool:
        """Tell whether features may be NaN: its first transform takes them, or those of all its members do."""
        if state.transforms:
            return state.transforms[0].accepts_missing
        return bool(state.members) and all(one._takes_missing(one._state) for one in state.members)

    def _block_scores(self, state: State, X: AnyFeatures, offsets: Ints, names: tuple[str, ...] | None) -> Floats:
        """Return the scores of the queries with these offsets; names are those of the features."""
        if not state.has_begun:  # all documents score 0, whatever transforms have yet to see
            if not isinstance(X, SparseFeatures) and self._takes_missing(state):
                X = np.where(np.isnan(X), 0.0, X)
            return self._scores(state, X, names)
        transforms = named(state, self._transforms(state), names)
        return self._scores(state, transformed(transforms, as_learned(state, X), offsets, names), names)

    def _scores(self, state: State, X: AnyFeatures, names: tuple[str, ...] | None) -> Floats:
        scores = np.zeros(X.shape[0])
        if isinstance(X, SparseFeatures):
            is_finite = are_finite(X) if not state.has_begun else self._score_sparse(state, X, scores)
        else:
            weights = self._coefficients(state) if state.has_begun else np.zeros(X.shape[1])
            is_finite = score_rows(read_only(X), 0, len(X), weights, scores)
        if not is_finite:
            if are_finite(X):
                raise ValueError("scores overflow: the features are too large")
            raise bad_feature(X, 0, names)
        return scores

    def _score_sparse(self, state: State, X: SparseFeatures, scores: Floats) -> bool:
        """Write the scores of sparse features; return whether all are finite."""
        share, factor = state.table_scale(mean=self._ranks_with(state) == "mean")
        return score_by_table(X.arrays, state.table, share, factor, scores)

    def _has_transforms(self, state: State) -> bool:
        """Tell whether features are transformed, so that a score may depend on the other documents of a query."""
        return bool(self._transforms(state))

    def rank(self, X: npt.ArrayLike) -> Ints:
        """Rank the documents of one query.

        Parameters
        ----------
        X : array of shape (documents, features), sparse matrix or data frame
            The documents.

        Returns
        -------
        array of int of shape (documents,)
            Row numbers, best first; documents of equal scores keep the input order.

        Raises
        ------
        ValueError
            If a feature is invalid, or the features are not those that were learned.
        """
        return np.argsort(-self.predict(X), kind="stable")

    # The learned state

    def _has_learned(self) -> bool:
        return self._state.has_begun

    def _learned(self) -> State:
        """Return the state; raise if nothing was learned."""
        state = self._state
        if not state.has_begun:
            raise AttributeError(f"this {type(self).__name__} has not learned anything yet")
        return state

    @property
    def weights(self) -> Floats:
        """The current iterate, weights of the features after `transforms_`; read-only.

        Raises
        ------
        AttributeError
            If nothing was learned.
        """
        return fixed_copy(self._learned().weights)

    @property
    def coef_(self) -> Floats:
        """The weights that `predict` uses, read-only.

        If averaging, they are the mean of all iterates after the first, otherwise the current one. They are weights of
        the features after `transforms_`: of z-scores and normal scores with "auto", of standardised features with
        "running". `perceptrank.deploy.explain` says what they mean, and `perceptrank.deploy.fold` makes weights of raw
        features of them where that is possible.

        Raises
        ------
        AttributeError
            If nothing was learned.
        """
        return fixed_copy(self._coefficients(self._learned()))

    def _coefficients(self, state: State) -> Floats:
        return state.mean() if self._ranks_with(state) == "mean" else state.weights.copy()

    @property
    def n_features_in_(self) -> int:
        """Number of features, before the transforms.

        Raises
        ------
        AttributeError
            If nothing was learned.
        """
        self._learned()
        return self._state.n_inputs

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """Names of the features, if the data had them.

        Raises
        ------
        AttributeError
            If they have no names.
        """
        names = self._state.feature_names
        if names is None:
            raise AttributeError("the features have no names")
        return np.array(names, dtype=object)

    def _known_state(self) -> State:
        """Return the state, as far as it is known: what settings give may be known before anything was learned."""
        return self._state

    @property
    def _needed_names(self) -> tuple[str, ...] | None:
        """Names of the features that streams must have, in their order; None if any do."""
        state = self._state
        takes_any = bool(state.transforms) and state.transforms[0].accepts_any_columns
        return None if takes_any else state.feature_names

    @property
    def n_queries(self) -> int:
        """Number of queries learned from."""
        return self._state.queries

    @property
    def n_rounds(self) -> int:
        """Number of rounds: queries, or documents for a learner that takes them one by one."""
        state = self._state
        return int(state.tally[ROUNDS]) if state.has_begun else 0

    @property
    def n_updates(self) -> int:
        """Number of rounds with an update."""
        state = self._state
        return int(state.tally[UPDATES]) if state.has_begun else 0

    @property
    def transforms_(self) -> list[Transform]:
        """The transforms before the weights, with their statistics; freezing one takes effect, unless `learn` runs.

        They follow `transforms` until something is learned; a later change of `transforms` applies from the next `fit`.
        """
        return self._transforms(self._state)

    @property
    def scaling(self) -> TransformLike:
        """The former name of `transforms`."""
        warn_renamed("scaling", "transforms")
        return self.transforms

    @scaling.setter
    def scaling(self, transforms: TransformLike) -> None:
        warn_renamed("scaling", "transforms")
        self.transforms = transforms

    @property
    def transform(self) -> TransformLike:
        """Not readable, so that scikit-learn does not take a ranker for a transformer; sets `transforms`."""
        raise AttributeError("the transforms of a ranker are its attribute transforms")

    @transform.setter
    def transform(self, transforms: TransformLike) -> None:
        self.transforms = transforms

    @property
    def scalings_(self) -> list[Transform]:
        """The former name of `transforms_`."""
        warn_renamed("scalings_", "transforms_")
        return self.transforms_

    def largest_norm(self, n_features: int, longest: int) -> float:
        """Return an upper bound on the norm of a transformed document, infinity if there is none.

        It is known before anything is seen, and is a radius for `guarantee`.

        Parameters
        ----------
        n_features : int
            Number of features, before the transforms.
        longest : int
            Largest number of documents of a query.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If an argument is not a positive whole number.

        Examples
        --------
        >>> import perceptrank as pr
        >>> round(pr.ListwisePerceptron(transforms="auto").largest_norm(136, longest=120), 1)
        130.9
        """
        check_positive_whole("n_features", n_features)
        check_positive_whole("longest", longest)
        norm = np.inf
        for transform in self.transforms_:
            norm = transform.largest_norm_after(norm, n_features, longest)
            n_features = transform.n_outputs(n_features)
        return norm

    def _blocks(self, state: State, stream: QueryStream) -> Iterator[QueryStream]:
        """Iterate over blocks that are small enough for their transformed features to stay in the cache."""
        if stream.is_sparse and state.has_begun and not state.takes_sparse:
            return _dense_blocks(stream)
        transforms = self._transforms(state)
        if not transforms or stream.is_sparse:
            return stream.blocks()
        widths = [max(1, stream.n_features)]
        for transform in transforms:
            widths.append(max(1, transform.n_outputs(widths[-1])))
        # Features that become many take memory in proportion to what they become.
        return stream.blocks(min(TRANSFORMED_BYTES, _WIDEST_BYTES * widths[0] // max(widths)))

    def _transforms(self, state: State) -> list[Transform]:
        """Return the transforms that features go through before they are scored."""
        return state.transforms

    def _check_features(self, state: State, n_features: int, names: tuple[str, ...] | None) -> None:
        """Raise if features do not match those that were learned; by name, or if they have none, by number."""
        if names and state.has_begun and state.transforms and state.transforms[0].accepts_any_columns:
            if state.feature_names is None:
                raise ValueError("the features that were learned had no names, by which to find them: give X without")
            return
        if state.has_begun and n_features != state.n_inputs:
            raise ValueError(
                f"X has {n_features} features, but {type(self).__name__} is expecting "
                f"{state.n_inputs} features as input{_difference(names, state.feature_names)}"
            )
        if names and state.feature_names and names != state.feature_names:
            pairs = zip(names, state.feature_names, strict=True)
            found, expected = next((one, other) for one, other in pairs if one != other)
            raise ValueError(
                "The feature names should match those that were passed during fit: "
                f"got {found!r} where {expected!r} was learned{_difference(names, state.feature_names)}"
            )


def _difference(names: tuple[str, ...] | None, learned: tuple[str, ...] | None) -> str:
    """Describe how names differ from those that were learned, and what to do if only order and additions differ."""
    if not names or not learned:
        return ""
    lacking = [name for name in learned if name not in set(names)]
    if lacking:
        shown = ", ".join(map(repr, lacking[:3])) + (f" and {len(lacking) - 3} more" if len(lacking) > 3 else "")
        return f"; of these, it lacks {shown}"
    return "; stream.select(ranker.feature_names_in_) takes those that were learned, in their order"


def _dense_blocks(stream: QueryStream) -> Iterator[QueryStream]:
    """Iterate over blocks of sparse features that are small as dense ones, except for a single query that is not."""
    for block in stream.blocks(TRANSFORMED_BYTES):
        most = max(1, TRANSFORMED_BYTES // (block.n_features * block.X.dtype.itemsize))
        start = 0
        while start < len(block):
            stop = int(np.searchsorted(block.offsets, block.offsets[start] + most, side="right")) - 1
            stop = max(stop, start + 1)
            yield block[start:stop]
            start = stop


def fixed_copy(weights: Floats) -> Floats:
    """Return a copy that refuses assignment: it would change no ranker."""
    copied = weights.copy()
    copied.flags.writeable = False
    return copied


def as_learned(state: State, X: AnyFeatures) -> AnyFeatures:
    """Return features sparse or dense, as those were that the state has learned from."""
    if isinstance(X, SparseFeatures):
        return X if state.takes_sparse else X.toarray()
    return SparseFeatures.from_dense(X) if state.takes_sparse else X


def named(state: State, transforms: list[Transform], names: tuple[str, ...] | None) -> list[Transform]:
    """Return transforms, the first of which knows the names of the columns if those are what was learned by."""
    if state.feature_names is None or not transforms:
        return transforms
    return [transforms[0].for_columns(names), *transforms[1:]]


def transformed(
    transforms: list[Transform],
    X: Any,
    offsets: Ints,
    names: tuple[str, ...] | None = None,
    *,
    learning: bool = False,
) -> AnyFeatures:
    """Return the features of queries with these offsets after some transforms; names are those of X, for an error."""
    given = X
    for transform in transforms if len(X) else []:
        try:
            made = transform.learn_and_apply(X, offsets) if learning else transform.apply(X, offsets)
        except ValueError:
            bad = find_bad_feature(given, names, keep_missing=transforms[0].accepts_missing)
            if bad is None:
                raise
            raise bad from None
        X = read_only(checked(transform, made, X))
    return X


def as_named_features(X: Any) -> tuple[AnyFeatures, tuple[str, ...] | None]:
    """Convert features; return them with the names of a data frame's columns."""
    names = column_names(X)
    return as_any_features(X), tuple(names) if names else None
