"""Initial weights and the signs that weights keep: settings in terms of features, as vectors of weights.

Features are named as in the data, or numbered by their columns, from 0. Both settings are about features before the
transforms. A vector of initial weights alone is about the features after them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.learners.tally import FREE, NEGATIVE, POSITIVE, ZERO
from perceptrank.stream.validation import ParameterError, as_number, is_whole
from perceptrank.theory import theorems
from perceptrank.theory.theorem import Theorem
from perceptrank.transforms.transform import Transform

if TYPE_CHECKING:
    from perceptrank.learners.model import Model

Feature: TypeAlias = str | int
InitialWeights: TypeAlias = Mapping[Feature, float] | npt.ArrayLike | None
FeatureNames: TypeAlias = Sequence[Feature] | Feature | None
Origin: TypeAlias = dict[Feature, float] | tuple[float, ...] | None  # a copy of what was given, validated

SIGNS = {"positive": POSITIVE, "negative": NEGATIVE, "zero": ZERO}
STARTS = ("initial_weights", "production", *SIGNS)  # parameters that cannot change once something was learned
_RULES = {POSITIVE: ">= 0", NEGATIVE: "<= 0", ZERO: "0"}
MOST_OUTPUTS = 1000  # that count for the weight of production's score; sparse documents have few of many features
_SHOWN = 5
NO_SIGNS: Floats = np.empty(0)


@dataclass(kw_only=True, repr=False, eq=False)
class Startable:
    """Parameters of list-wise learners, which may start from other weights than 0 and keep the signs of weights.

    Parameters
    ----------
    initial_weights : mapping from features to weights, or vector, optional
        Weights to start from, 0 if they are not given: by name, or by number of column, of features as they are; or a
        vector with one for each feature after the transforms. Rankings then depend on the learning rate.
    production : str or int, optional
        Feature that has the score of the ranker to start from, by name or number of column; or "score", which the
        transform `ScoreOf` adds. Its weight starts at `learning_rate` √n, n being the number of weights behind the
        transforms, at most 1,000: the length of a step if features have spread 1. All others start at 0, so that the
        first query is ranked as that ranker does.
    positive, negative, zero : list of features, optional
        Features, by name or number of column, whose weights stay ≥ 0, ≤ 0 or 0; after the transforms, those of
        everything that is made of them.
    """

    accepts_sparse: ClassVar[bool] = True
    accepts_query_weights: ClassVar[bool] = True

    initial_weights: InitialWeights = None
    production: str | int | None = None
    positive: FeatureNames = None
    negative: FeatureNames = None
    zero: FeatureNames = None


@dataclass(frozen=True)
class Beginning:
    """The weights that a learner starts from, and the signs that they keep, as its settings say."""

    origin: Origin = None  # None for zeros
    constraints: dict[Feature, float] = field(default_factory=dict)
    ranks: bool = False  # before anything was learned
    names_features: bool = False  # so that these must be known
    production: Feature | None = None
    rate: float | None = None  # the learning rate, in units of which production's weight is; None if that is 1

    @classmethod
    def of(
        cls,
        initial_weights: InitialWeights,
        positive: FeatureNames,
        negative: FeatureNames,
        zero: FeatureNames,
        production: Feature | None = None,
        rate: float | None = None,
    ) -> Beginning:
        """Check the settings."""
        origin = as_initial(initial_weights)
        constraints = as_signs(positive=positive, negative=negative, zero=zero)
        if not (production is None or isinstance(production, str) or (is_whole(production) and production >= 0)):
            raise ParameterError("production", "must name a feature, or a column by its number", production)
        if production is not None and origin is not None:
            raise ValueError("give production or initial_weights, not both")
        features = [*(origin if isinstance(origin, dict) else ()), *constraints, production]
        named = any(isinstance(feature, str) for feature in features)
        return cls(origin, constraints, origin is not None or production is not None, named, production, rate)

    @property
    def features(self) -> tuple[str, ...] | None:
        """Names of all features that have initial weights; None if some are known by number."""
        if not isinstance(self.origin, dict):
            return None
        names = tuple(feature for feature in self.origin if isinstance(feature, str))
        return names if len(names) == len(self.origin) else None

    def weights(self, model: Model, n_outputs: int) -> Floats | None:
        """Return the weights of transformed features to start from, None for zeros; raise if they do not fit them."""
        origin, n_features = self.origin, model.n_inputs
        if self.production is not None:
            return self._production_weights(model)
        if origin is None:
            return None
        if isinstance(origin, tuple):
            if len(origin) != n_outputs:
                after = f", as the transforms make of {n_features}" if model.transforms else ""
                rule = f"must have one entry for each of {n_outputs} features{after}"
                raise ParameterError("initial_weights", rule, origin)
            return np.array(origin)
        weights, places = np.zeros(n_features), _places("initial_weights", list(origin), model)
        if len(set(places)) < len(places):
            raise ParameterError("initial_weights", "must not have a feature twice, by name and by column", origin)
        weights[places] = list(origin.values())
        return _converted(weights, model.feature_names, model.transforms)

    def _production_weights(self, model: Model) -> Floats:
        """Return a weight for the first output of the transforms that rises with the production score, else 0."""
        assert self.production is not None
        weights = np.zeros(model.n_inputs)
        if not any(transform.adds == self.production for transform in model.transforms):
            weights[_places("production", [self.production], model)] = 1.0
        for transform in model.transforms:
            if transform.adds:
                weights = np.append(weights, 1.0 if transform.adds == self.production else 0.0)
                continue
            sources = transform.sources(len(weights))
            if sources is None or not (rising := (sources >= 0) & (weights[sources] > 0.0)).any():
                raise ValueError(
                    f"`production` needs outputs that rise with the score, which {transform!r} does not give"
                )
            weights = np.zeros(len(sources))
            weights[np.argmax(rising)] = 1.0
        if self.constraints and self.signs(model)[np.argmax(weights)] != FREE:
            raise ValueError("`production` must not be among `positive`, `negative` or `zero`")
        return weights if self.rate is None else self.rate * math.sqrt(min(len(weights), MOST_OUTPUTS)) * weights

    def signs(self, model: Model) -> Floats:
        """Return the signs that weights of transformed features keep, empty if none is constrained."""
        if not self.constraints:
            return NO_SIGNS
        signs = np.full(model.n_inputs, FREE)
        for name, code in SIGNS.items():
            features = [feature for feature, sign in self.constraints.items() if sign == code]
            for place, feature in zip(_places(name, features, model), features, strict=True):
                if signs[place] != FREE:
                    rule = "must not have a feature twice, nor one that another constraint has"
                    raise ParameterError(name, rule, feature)
                signs[place] = code
        for transform in model.transforms:
            if transform.adds and transform.adds == self.production:
                signs = np.append(signs, FREE)
                continue
            sources = transform.sources(len(signs))
            if sources is None:
                raise ValueError(
                    f"{transform!r} does not say which feature each of its outputs is made of, so that none can be "
                    "constrained: give other `transforms`"
                )
            signs = _through(transform, sources, signs)
        return signs

    def norm(self, model: Model) -> float:
        """Return the norm of the initial weights before anything was learned; raise if it depends on the features."""
        if self.production is not None or (isinstance(self.origin, dict) and model.transforms):
            raise ValueError("the norm of the initial weights depends on the features and transforms: learn first")
        values = self.origin.values() if isinstance(self.origin, dict) else self.origin or ()
        return float(np.linalg.norm(np.array([*values])))

    def theorem(self, theorem: Theorem) -> Theorem:
        """Return the theorem of a learner that starts from 0, free of constraints, for this start and constraints."""
        theorem = theorems.from_start(theorem) if self.ranks else theorem
        return theorems.constrained(theorem) if self.constraints else theorem


def _as_feature(setting: str, item: Any) -> Feature:
    """Return the name of a feature, or its column; raise if it is neither."""
    if isinstance(item, str):
        return str(item)
    if not is_whole(item) or item < 0:
        raise ParameterError(setting, "must name features, or columns by numbers >= 0", item)
    return int(item)


def as_initial(origin: Any) -> Origin:
    """Return a copy of initial weights; raise unless they are finite numbers, by feature or in a vector."""
    if origin is None:
        return None
    if isinstance(origin, Mapping):
        weights = {}
        for feature, weight in origin.items():
            weights[_as_feature("initial_weights", feature)] = as_number(weight)
            if not np.isfinite(as_number(weight)):
                raise ParameterError("initial_weights", f"of {feature!r} must be a finite number", weight)
        return weights
    try:
        vector = np.asarray(origin)
        numeric = vector.ndim == 1 and vector.dtype.kind in "iuf"
    except (TypeError, ValueError):
        numeric = False
    if not numeric:
        raise ParameterError("initial_weights", "must be a mapping from features to weights, or a vector", origin)
    if not np.isfinite(vector).all():
        place = int(np.argmin(np.isfinite(vector)))
        raise ParameterError("initial_weights", f"must be finite at {place}", float(vector[place]))
    return tuple(vector.astype(np.float64).tolist())


def initial_as_plain(origin: Origin) -> Any:
    """Return initial weights as a model file holds them: an object, pairs if a column is numbered, or a list."""
    if isinstance(origin, dict):
        named = all(isinstance(feature, str) for feature in origin)
        return dict(origin) if named else [[feature, weight] for feature, weight in origin.items()]
    return None if origin is None else list(origin)


def initial_from_plain(plain: Any) -> Any:
    """Return the initial weights that `initial_as_plain` converted."""
    is_pairs = isinstance(plain, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in plain)
    return dict(plain) if plain and is_pairs else plain


def as_signs(**constraints: FeatureNames) -> dict[Feature, float]:
    """Return the sign of each constrained feature; raise if one is constrained twice, or is neither name nor number."""
    signs: dict[Feature, float] = {}
    for name, features in constraints.items():
        if features is None:
            continue
        listed: Any = [features] if isinstance(features, str) or is_whole(features) else features
        if not isinstance(listed, (list, tuple, np.ndarray)):
            raise ParameterError(name, "must be a list of features", features)
        for item in listed:
            feature = _as_feature(name, item)
            if feature in signs:
                raise ParameterError(name, "must not name a feature twice, nor one that another constraint has", item)
            signs[feature] = SIGNS[name]
    return signs


def _converted(weights: Floats, names: tuple[str, ...] | None, transforms: list[Transform]) -> Floats:
    """Return the weights that give transformed features the scores of raw ones, but for a constant."""
    for transform in transforms:
        slopes = transform.slopes(len(weights))
        if slopes is None:
            raise ValueError(
                "`initial_weights` by feature are weights of features as they are, which "
                f"{transform!r} does not multiply by fixed numbers: learn without `transforms`, or with a standardizer "
                "that is frozen, or give the weights of transformed features as a vector"
            )
        lost = np.flatnonzero((slopes == 0) & (weights != 0))
        if len(lost):
            shown = repr(names[lost[0]]) if names else f"column {lost[0]}"
            raise ValueError(
                f"initial_weights of {shown} must be 0, since {transform!r} makes it constant, got {weights[lost[0]]}"
            )
        weights = np.divide(weights, slopes, out=np.zeros_like(weights), where=slopes != 0)
    return weights


def _through(transform: Transform, sources: Ints, signs: Floats) -> Floats:
    falling = sources < 0
    outputs = signs[np.where(falling, -1 - sources, sources)]
    if ((outputs != FREE) & (outputs != ZERO) & falling).any():
        raise ValueError(
            "`positive` and `negative` need outputs that rise with the feature, which "
            f"{transform!r} does not give: choose other `transforms`"
        )
    return outputs


def _places(setting: str, features: list[Feature], model: Model) -> list[int]:
    """Return the columns of features; raise if one is unknown."""
    names, n_features = model.feature_names, model.n_inputs
    default_names = [f"f{place}" for place in range(1, n_features + 1)]  # as exported files have them
    columns: dict[Feature, int] = {name: place for place, name in enumerate(names or default_names)}
    places: list[Any] = [columns.get(feature, feature) for feature in features]
    unknown = [place for place in places if isinstance(place, str) or place >= n_features]
    for feature in unknown:
        if names is None and isinstance(feature, str):
            rule = f"must use f1 to f{n_features}, column numbers or a vector: the features have no names"
            raise ParameterError(setting, rule, feature)
    if unknown:
        among = f": {_shown(names)}" if names else ""
        raise ValueError(f"`{setting}` names unknown features {_shown(unknown)}; the data has {n_features}{among}")
    return places


def _shown(features: Sequence[Any]) -> str:
    """Return the first few features, for an error."""
    return ", ".join(map(repr, features[:_SHOWN])) + (", …" if len(features) > _SHOWN else "")


def check_signs(what: str, weights: Floats, signs: Floats) -> None:
    """Raise unless weights have their signs; if there are none, any do."""
    if len(signs) == 0:
        return
    wrong = ((signs == POSITIVE) & (weights < 0)) | ((signs == NEGATIVE) & (weights > 0))
    wrong |= (signs == ZERO) & (weights != 0)
    if wrong.any():
        place = int(np.argmax(wrong))
        raise ValueError(
            f"{what} must satisfy the constraints: that of feature {place}, after the transforms, must be "
            f"{_RULES[signs[place]]}, got {weights[place]}"
        )
