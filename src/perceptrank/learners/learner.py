"""The interface of every linear learner."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

import numpy as np
import numpy.typing as npt

from perceptrank.evaluation.trace import Trace
from perceptrank.io.model_file import write_model
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.learners.learning import (
    advance,
    check_log,
    kinds_of_lists,
    learn_query,
    learn_stream,
    ready_model,
    takes_clicks,
)
from perceptrank.learners.model import Model, as_named_features, fixed_copy
from perceptrank.learners.saving import document_of, restore_learner
from perceptrank.learners.sklearn_adapter import Estimator, Parameter, as_example, differ, reads_labels
from perceptrank.learners.starting import STARTS, Beginning, FeatureNames, InitialWeights
from perceptrank.learners.tally import CHANGES
from perceptrank.measures import MeasureLike, parse_all
from perceptrank.stream.blocks import Blocks, as_blocks, block_of_frame
from perceptrank.stream.columns import QID
from perceptrank.stream.frames import is_frame
from perceptrank.stream.parameter_docs import add_inherited_parameters
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.sparse import SparseFeatures
from perceptrank.stream.validation import ParameterError, as_grades, check_positive
from perceptrank.theory.theorem import NO_THEOREM, AnyComparator, Theorem
from perceptrank.transforms.registry import make_transforms
from perceptrank.transforms.transform import Transform, TransformLike

if TYPE_CHECKING:
    from perceptrank.theory.guarantees import Certificate

_LAST = ("average", "transforms", *STARTS)  # parameters that many learners have, in this order


def _place(name: str) -> int:
    return _LAST.index(name) if name in _LAST else -1


@dataclass_transform()
class Learner(Estimator):
    """A linear ranker that learns online: score = features . weights.

    Base class of all learners. To write one, derive from `NumpyLearner` or `CompiledLearner`. The constructor is made
    of the parameters, declared as those of a dataclass. Those below mean the same in all learners that take them.

    Parameters
    ----------
    learning_rate : float > 0
        Factor of every step.
    average : bool
        Rank with the mean of all iterates instead of the last one.
    transforms : str, Transform or list of them, optional
        Transforms that features go through first.
    measure : "ndcg", "ndcg@k", "ap", or a Measure
        The measure that is learned. While learning, tied documents always count as ranked in the worst order; a
        measure's own policies are for recording.
    class_order : "score", "mean", or "index"
        Order of weights inside a relevance class: by score, shared equally, or by index; see `Slam`.
    n_members : int
        Number of members.
    seed : int
        Seed of all that is drawn at random.

    Attributes
    ----------
    algorithm : str
        Name on the command line and in model files.
    takes : str
        Unit of learning: "lists", "pairs" of a list, or "documents" one by one; or "clicks" on lists that were shown.
    cost : str
        Time for a query, in documents m, features d, grades g, members N, buffer size s, budget B.
    longest_query : int or None
        Number of documents beyond which a query takes so long that a service does not learn from it.
    theorem : Theorem
        The guarantee for the current settings.
    depends_on_rate : bool
        True if rankings, with default settings, change with `learning_rate`.
    depends_on_scale : bool
        True if features of a larger scale count for more, so that those of very different scales need transforms.
    accepts_sparse : bool
        True if it learns from sparse features.
    accepts_query_weights : bool
        True if the query weights scale what it learns from them; if not, all must be 1.
    without_query_weights : str
        The reason, if it accepts no weights.
    learns : bool
        False of a ranker that stays as it is; it needs settings, and is not among `perceptrank.algorithms`.
    reads_labels : bool
        True if grades may be labels -1 and 1, and examples without queries are learned one by one.
    fixed : tuple of str
        Parameters that cannot change once something was learned.
    model_class : type
        Class of its model, of its own if it ranks in a way of its own.

    Notes
    -----
    Arguments that mean the same in all methods:

    - `X`: documents, an array of shape (documents, features), a sparse matrix or a data frame.
    - `stream`: a `QueryStream`, or a data frame as `QueryStream.from_frame` reads; to learn from, also several of them.
    - `qid`, `group`: query of each document, or number of documents of each query. Without them, X is one query.
    - `model`: a `Model` of a learner with the same settings.
    - `document`: what `as_document` returned.
    - `margin`, `comparator`: margin of a separable stream; or norm and cumulative surrogate of some fixed ranker, a
      `Comparator` or a pair. Give one of the two.
    - `diameter`, `radius`: those of the stream; give either, since 2R bounds the diameter if that is unknown.
    - `n_documents`: most documents of a query, if known. Bounds are then smaller, as one ranking of m documents loses
      at most 1 - 1 / m in AP and 1 - 1 / log2(1 + m) in NDCG (without a cut-off before m).

    Methods raise `ValueError` if a grade, feature or weight is invalid, features are not those that were learned
    before, or scores overflow; `TypeError` if features are sparse and the learner takes dense ones only; and
    `AttributeError` if nothing was learned that could be returned. An error or an interrupt leaves the learner as it
    was before the call.

    Examples
    --------
    Every learner is used alike:

    >>> import perceptrank as pr
    >>> train, test = pr.mslr_shaped(60, n_documents=8, n_features=5, seed=1).split(0.8)
    >>> ranker = pr.ListwisePerceptron()
    >>> trace = ranker.learn(train, measures=["ndcg@10", "ap"])
    >>> len(trace), ranker.n_queries, len(ranker.rank(test[0].X)) == len(test[0].relevance)
    (48, 48, True)
    """

    algorithm: ClassVar[str]
    takes: ClassVar[str] = "lists"
    cost: ClassVar[str]
    longest_query: ClassVar[int | None] = None
    depends_on_rate: ClassVar[bool] = True
    depends_on_scale: ClassVar[bool] = True
    accepts_sparse: ClassVar[bool] = False
    accepts_query_weights: ClassVar[bool] = False
    without_query_weights: ClassVar[str] = "its rule has no query weights"  # why, if it does not accept them
    learns: ClassVar[bool] = True
    reads_labels: ClassVar[bool] = False
    fixed: ClassVar[tuple[str, ...]] = ()

    model_class: ClassVar[type[Model]] = Model

    average: bool = False
    transforms: TransformLike = None
    initial_weights: InitialWeights = None
    production: str | int | None = None
    positive: FeatureNames = None
    negative: FeatureNames = None
    zero: FeatureNames = None

    __signature__: ClassVar[inspect.Signature]
    _model: Model

    def __init_subclass__(cls) -> None:
        maker = next(base for base in cls.__mro__ if "__init__" in vars(base))
        if maker is object or (
            maker is not cls and "__dataclass_fields__" in vars(maker)
        ):  # no constructor was written by hand
            dataclass(cls, repr=False, eq=False)
        super().__init_subclass__()
        _, *parameters = inspect.signature(cls.__init__).parameters.values()
        cls.__signature__ = inspect.Signature(sorted(parameters, key=lambda each: (each.kind, _place(each.name))))
        inherited, cls.parameter_names = cls.parameter_names, tuple(cls.__signature__.parameters)
        for name in inherited:
            if name not in cls.parameter_names and isinstance(getattr(cls, name), Parameter):
                setattr(cls, name, getattr(cls, name).default)
        for parameter in parameters:
            setattr(cls, parameter.name, Parameter(parameter.name, parameter.default))
        add_inherited_parameters(cls)

    def __post_init__(self) -> None:
        """Check the parameters and forget everything; the last line of every constructor."""
        self._check_parameters()
        self._lock = RLock()
        self._model = self._configured()

    def _configured(self, model: Model | None = None) -> Model:
        """Set in a model that may be changed, or in a new one, the settings that its ranking depends on; return it."""
        if model is None:
            model = self.model_class(make_transforms(self._own_transform()))
        model.kind, model.average = type(self).__name__, bool(self.average)
        model.beginning = self._beginning()
        return model

    def _own_transform(self) -> TransformLike:
        """Return the transforms that features go through first, as settings name them."""
        # Weights of features as they are, known by name, stay what they are.
        is_auto = isinstance(self.transforms, str) and self.transforms == "auto"
        return None if is_auto and isinstance(self.initial_weights, Mapping) else self.transforms

    def _beginning(self) -> Beginning:
        """Check the settings of the start; return them."""
        rate = None
        if self.production is not None:
            rate = check_positive("learning_rate", getattr(self, "learning_rate", 1.0))
        return Beginning.of(self.initial_weights, self.positive, self.negative, self.zero, self.production, rate)

    @abstractmethod
    def _pass(self, state: Model, X: Any, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats) -> int:
        """Rank and learn the queries of a block of validated arrays; X is sparse if the state is.

        Returns the number of queries before an invalid value or an overflow. Writes the scores that queries were ranked
        by to `predicted`. `masses` has the weight of each query, and gets the mass that was moved times that weight; a
        query of weight 0 is ranked, and changes nothing.
        """

    @property
    def name(self) -> str:
        """Name on the command line."""
        return self.algorithm

    @property
    def model(self) -> Model:
        """Everything learned so far, as an immutable snapshot; learning replaces it."""
        return self._model

    def adopt(self, model: Model, *, after: Model | None = None) -> None:
        """Replace what was learned.

        Parameters
        ----------
        after : Model, optional
            What it follows on; `RuntimeError` is raised if that is not the current one.
        """
        _check_model(self, model)
        with self._lock:
            if after is not None and self._model is not after:
                raise RuntimeError(f"{self.name} has learned something else meanwhile")
            self._model = model

    def with_model(self, model: Model) -> Self:
        """Return a learner with these settings and the given model; the two share it until one learns more."""
        _check_model(self, model)
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__, _model=model, _lock=RLock())
        return twin

    # Learning

    def learn(self, stream: Blocks, measures: Iterable[MeasureLike] | MeasureLike | None = None) -> Trace:
        """Learn from a stream in one pass: rank each query, record the measures, then learn from its grades.

        Query weights scale what is learned from each query (docs/learners/inputs.md says how), and weight the means of
        the trace. An error in one of several blocks does not undo those before it. Other threads see the state before
        the call until it returns; if they learn too, they wait. Warns if, at first, features differ so much in spread
        that the largest decide alone.

        Parameters
        ----------
        measures : str, Measure or list of them, optional
            Measures to record; by default the measure that is learned, or NDCG@10, and none if there are no grades.

        Returns
        -------
        Trace
            Each measure's value for every query, of the ranking before its grades were known.
        """
        recorded = None if measures is None else parse_all(measures)
        if isinstance(stream, QueryStream):
            check_log(self, kinds_of_lists(self, stream))
            return advance(self, learn_stream, stream, recorded)
        traces: list[Trace] = []
        kinds: set[str] = set()
        for block in as_blocks(stream, known=self._model.feature_names or ()):
            kinds |= kinds_of_lists(self, block)
            traces.append(advance(self, learn_stream, block, recorded))
        if not traces:
            raise ValueError("the stream has no queries")
        check_log(self, kinds)  # blocks that are not randomised may come before others that are
        return Trace.concatenate(traces)

    def learn_one(self, X: npt.ArrayLike, relevance: npt.ArrayLike, weight: float = 1.0) -> bool:
        """Learn from one query; return whether there was an update. `TypeError` is raised if it learns from clicks.

        Parameters
        ----------
        relevance : array of shape (documents,)
            Grades of the documents.
        weight : float
            Weight of the query, which scales what is learned from it; with 0, nothing is.
        """
        if takes_clicks(self):
            raise TypeError(f"{self.name} learns from clicks: show a list with `show`, then call `learn_clicks`")
        if reads_labels(self):
            X, relevance = as_example(X, relevance)
        features, names = as_named_features(X, self._model)
        m = features.shape[0]
        if type(relevance) is np.ndarray and relevance.dtype == np.float64 and relevance.shape == (m,):
            grades = np.ascontiguousarray(relevance)
        else:
            grades = as_grades(relevance, m)
        if m == 0:
            raise ValueError("a query must have at least one document, got none")
        return advance(self, learn_query, features, names, grades, weight)

    # Guarantees

    @property
    def theorem(self) -> Theorem:
        """The guarantee for the current settings."""
        return NO_THEOREM

    def guarantee(
        self,
        *,
        diameter: float | None = None,
        radius: float | None = None,
        margin: float | None = None,
        comparator: AnyComparator | None = None,
        largest_weight: float = 1.0,
        n_documents: int | None = None,
    ) -> float:
        """Return the upper bound on the loss by the learner's theorem, see `perceptrank.theory.Theorem`.

        The theorem is about rankings by the current weights, not by their mean; that of `ListwisePerceptron`, which
        chooses between the two, depends on `average`. If weights are constrained, margin and comparator must be those
        of a ranker that satisfies the constraints. For a learner that starts from weights other than 0, a `Comparator`
        with its `ranker` gives a smaller bound, the closer its direction is to that of the start.

        Parameters
        ----------
        largest_weight : float > 0
            Largest weight of a query; the bound is then that of the sum of losses times weights, and so must be the
            comparator's loss.

        Raises
        ------
        ValueError
            If the learner has no theorem of this kind, the comparator does not belong to it, an argument is not a
            positive number, or not exactly one of `margin` and `comparator` is given; for `certificate`, also if
            settings have changed since learning began.
        """
        from perceptrank.theory.guarantees import guarantee

        return guarantee(
            self,
            diameter=diameter,
            radius=radius,
            margin=margin,
            comparator=comparator,
            largest_weight=largest_weight,
            n_documents=n_documents,
        )

    def certificate(
        self,
        *,
        margin: float | None = None,
        comparator: AnyComparator | None = None,
        diameter: float | None = None,
        radius: float | None = None,
        n_documents: int | None = None,
    ) -> Certificate:
        """Return the bounds on the loss so far, beside its observed value.

        - a posteriori, an inequality of the proof: S ≤ |w| / (learning_rate margin), or with |w - w₁| in place of |w|
          if the learner started from weights w₁ that are not 0;
        - from the steps: the theorem with the longest step per weight moved in place of the diameter;
        - a priori: the theorem itself, if `diameter` or `radius` is given;
        - safe averaging: the loss of the rankings used, against those by the mean and by the current weights, for
          `ListwisePerceptron` with `average`.

        S, the weight moved in all rounds, is at least the cumulative loss of rankings by the current weights; the least
        of S and what the theorem says about that loss is `loss_bound`. The bounds apply to transformed features, and
        there are none if settings other than `average` have changed since learning began. With query weights, S, the
        losses and the longest step are weighted, and so must be a comparator's loss. If shards were learned side by
        side (`perceptrank.distributed`), all these count by the weight of the shard in the mixture: Theorem D.
        """
        from perceptrank.theory.guarantees import certificate

        return certificate(
            self, margin=margin, comparator=comparator, diameter=diameter, radius=radius, n_documents=n_documents
        )

    # Ranking

    def predict(
        self, X: npt.ArrayLike | QueryStream, *, qid: npt.ArrayLike | None = None, group: npt.ArrayLike | None = None
    ) -> Floats:
        """Return one score per document; the larger, the better.

        Before anything was learned, they are those by the initial weights, all 0 if there are none. X may be a
        `QueryStream`. Transforms within queries need `qid` or `group`, if there are several; give one of them.
        """
        if isinstance(X, QueryStream):
            return self.scores(X)
        if is_frame(X) and qid is None and group is None and QID in X.columns:
            return self.scores(X)
        model = self._model
        features, names = as_named_features(X, model)
        model.check_features(features.shape[1], names)
        model = ready_model(self, features.shape[1], names, sparse=isinstance(features, SparseFeatures), model=model)
        return model.predict(features, names, qid, group)

    def scores(self, stream: QueryStream) -> Floats:
        """Return the scores of all documents of a stream, features transformed query by query; it needs no grades.

        Of a data frame, they are in the order of its rows.
        """
        if is_frame(stream):
            judged, rows = block_of_frame(stream, self._model.feature_names or (), judged=False)
            scores = np.empty(len(rows))
            scores[rows] = self.scores(judged)
            return scores
        model = ready_model(self, stream.n_features, stream.feature_names, sparse=stream.is_sparse)
        return model.scores(stream)

    def rank(self, X: npt.ArrayLike) -> Ints:
        """Return the rows of the documents of one query, best first; those of equal scores keep the input order."""
        if is_frame(X) and QID in X.columns and len(set(X[QID].to_list())) > 1:
            raise ValueError("rank takes the documents of one query, and the frame has several: `scores` takes them")
        return np.argsort(-self.predict(X), kind="stable")

    # What was learned

    @property
    def weights(self) -> Floats:
        """The current iterate: read-only weights of features after `transforms_`; `AttributeError` before learning."""
        return fixed_copy(self._model.require_learned().weights)

    @property
    def coef_(self) -> Floats:
        """The weights that `predict` uses, of features after `transforms_`; read-only.

        If averaging, they are the mean of all iterates after the first, otherwise the current one.
        `perceptrank.deploy.explain` says what they mean, and `perceptrank.deploy.fold` makes weights of raw features of
        them where that is possible.
        """
        return fixed_copy(self._model.require_learned().coefficients)

    @property
    def n_features_in_(self) -> int:
        """Number of features, before the transforms."""
        return self._model.require_learned().n_inputs

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """Names of the features, if the data had them."""
        names = self._model.feature_names
        if names is None:
            raise AttributeError("the features have no names")
        return np.array(names, dtype=object)

    @property
    def n_queries(self) -> int:
        """Number of queries learned from."""
        return self._model.queries

    @property
    def n_rounds(self) -> int:
        """Number of rounds: queries, or documents for a learner that takes them one by one."""
        return self._model.counts.rounds

    @property
    def n_updates(self) -> int:
        """Number of rounds with an update."""
        return self._model.counts.updates

    @property
    def transforms_(self) -> list[Transform]:
        """The transforms before the weights, with their statistics; freezing one takes effect, unless `learn` runs.

        They follow `transforms` until something is learned; a later change of `transforms` applies from the next `fit`.
        """
        return self._model.all_transforms

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        """Return the arrays that a learner has beside weights and counts, before anything was learned.

        Parameters
        ----------
        n_features : int
            Number of features, after the transforms.
        """
        return {}

    def correct_mixture(self, mixture: Model, before: Model, after: Sequence[Model]) -> None:
        """Change the mean of what shards have learned where another state is right; by default, the mean stays.

        Parameters
        ----------
        mixture, before : Model
            The mean, to be changed, and the model that all shards began with.
        after : sequence of Model
            What shards have learned.
        """

    def save(self, path: str | Path) -> None:
        """Write the model to a JSON file, atomically. `perceptrank.load` reads it.

        Parameters
        ----------
        path : str or Path
            The file; it is replaced as a whole, or left as it was.
        """
        write_model(path, self.as_document())

    def as_document(self, model: Model | None = None) -> dict[str, Any]:
        """Return the model, by default the current one, as a dictionary of plain values, as `save` writes it."""
        return document_of(self, self._model if model is None else model)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
        """Restore the model of a document; raise `ValueError`, `KeyError` or `TypeError` if it is inconsistent."""
        return restore_learner(cls, document)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from perceptrank.learners.notebook_card import card_of

        return card_of(self)

    def __copy__(self) -> Self:
        return deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept, _lock=RLock())

    def _follow_parameters(self, before: dict[str, Any], changed: set[str]) -> None:
        """Make the model one of changed parameters, which are valid; raise if it has learned with those before."""
        has_begun = self._model.has_begun
        for name in (*self.fixed, *STARTS):
            if has_begun and name in changed and differ(getattr(self, name), before.get(name)):
                raise ValueError(
                    f"{name} cannot be changed once something was learned: make a new {type(self).__name__}"
                )
        starts_anew = not has_begun and bool(changed & {"transforms", "initial_weights", "production"})
        self._model = self._configured(None if starts_anew else self._model.copy())
        known = (changed - {"average"}) & before.keys()  # with or without a mean, weights move alike
        if has_begun and any(differ(getattr(self, name), before[name]) for name in known):
            self._model.tally[CHANGES] += 1

    def _check_parameters(self) -> None:
        """Raise if a parameter is invalid."""
        if not isinstance(self.average, (bool, np.bool_)):
            raise ParameterError("average", "must be True or False", self.average)
        make_transforms(self.transforms)
        self._beginning()


def _check_model(learner: Learner, model: Model) -> None:
    own = learner.model
    if type(model) is not type(own) or model.kind != own.kind:
        what = f"one of {model.kind}" if isinstance(model, Model) else repr(model)
        raise ValueError(f"`model` must be a model of {own.kind or learner.name}, got {what}")
