"""Models as documents: plain values that model files hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from perceptrank.io.model_file import whole_number
from perceptrank.learners.model import Model, named, width_of
from perceptrank.learners.sklearn_adapter import Estimator
from perceptrank.learners.starting import SIGNS, as_initial, as_signs, initial_as_plain, initial_from_plain
from perceptrank.measures import Measure
from perceptrank.stream.sparse import SparseFeatures
from perceptrank.transforms.registry import as_plain, from_plain, make_transforms

if TYPE_CHECKING:
    from perceptrank.learners.learner import Learner

Kind = TypeVar("Kind", bound="Learner")


def document_of(learner: Learner, model: Model) -> dict[str, Any]:
    """Return the settings of a learner, and what it has learned, as plain values."""
    parameters = learner.get_params(deep=False)
    if isinstance(parameters.get("measure"), Measure):
        parameters["measure"] = str(parameters["measure"])
    if "transforms" in parameters:
        parameters["transforms"] = as_plain(learner.transforms)
    if "initial_weights" in parameters:
        parameters["initial_weights"] = initial_as_plain(as_initial(parameters["initial_weights"]))
    for name in SIGNS:
        if parameters.get(name) is not None:
            parameters[name] = list(as_signs(**{name: parameters[name]}))
    if "learner" in parameters and model.inner is not None:
        parameters["learner"] = model.inner.as_document()
    if parameters.get("learners") is not None:
        parameters["learners"] = [fresh(member).as_document() for member in model.members]
    members = {"members": [member.as_document() for member in model.members]} if model.members else {}
    return {
        "algorithm": learner.algorithm,
        "parameters": parameters,
        "queries": model.queries,
        "features": model.n_inputs,
        "feature_names": list(model.feature_names) if model.feature_names else None,
        "transforms": as_plain(model.transforms),
        "state": model.as_plain() if model.has_begun else None,
        **members,
        **({"zero_missing": True} if model.zero_missing else {}),
    }


def restore_learner(kind: type[Kind], document: dict[str, Any]) -> Kind:
    """Return the learner that `document_of` converted; raise if the document is inconsistent."""
    parameters = {**document["parameters"]}  # raises for anything but a mapping
    if "transforms" in parameters:
        parameters["transforms"] = from_plain(parameters["transforms"])
    if "initial_weights" in parameters:
        parameters["initial_weights"] = initial_from_plain(parameters["initial_weights"])
    for name in {"learner", "learners"} & parameters.keys():
        parameters[name] = _restore_part(parameters[name])
    learner = kind(**parameters)
    model = learner.model.copy()
    _restore_model(learner, model, document)
    if model.members:
        model.members = _restore_members(model, document["members"])
    learner.adopt(model)
    return learner


def fresh(learner: Learner, reseed: Callable[[int], int] | None = None) -> Learner:
    """Return an unlearned deep copy of a learner; `reseed`, if given, maps every seed, also of nested learners."""
    settings = learner.get_params(deep=False)
    for name, value in settings.items():
        if isinstance(value, Estimator):
            settings[name] = fresh(cast("Learner", value), reseed)
        elif name == "learners" and value is not None:
            settings[name] = [fresh(member, reseed) for member in value]
        elif name == "seed" and reseed is not None:
            settings[name] = reseed(int(value))
    return type(learner)(**settings)


def _restore_part(document: Any) -> Any:
    """Return the learner, or the learners, of a document, or of a list of them, or of None."""
    from perceptrank.learners.registry import from_document

    if document is None or isinstance(document, list):
        return document and [from_document(part) for part in document]
    return from_document(document)


def _restore_members(model: Model, documents: list[dict[str, Any]]) -> list[Learner]:
    """Return the members of an ensemble; raise unless they are like those of its new model."""
    members: list[Learner] = _restore_part(documents)
    if [_settings_of(member) for member in members] != [_settings_of(member) for member in model.members]:
        raise ValueError("members must be those that the parameters define")
    width = model.n_features if model.has_begun else None
    for member in members:
        learned_width = member.n_features_in_ if member.model.has_begun else None
        if learned_width != width:
            raise ValueError(f"members must have learned from {width} features, got {learned_width}")
        if member.model.takes_sparse != model.is_sparse:
            raise ValueError("members must have learned from sparse features if and only if the ensemble has")
    return members


def _settings_of(learner: Learner) -> tuple[str, dict[str, Any]]:
    return learner.algorithm, learner.as_document()["parameters"]


def _restore_model(learner: Learner, model: Model, document: dict[str, Any]) -> None:
    """Fill a model that has not begun from a document."""
    model.queries = whole_number("queries", document["queries"])
    names, state = document["feature_names"], document["state"]
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError("feature_names must be a list of names, or null")
    model.feature_names = tuple(names) if names else None
    model.zero_missing = document.get("zero_missing", False)
    if not isinstance(model.zero_missing, bool):
        raise ValueError(f"zero_missing must be true or false, got {model.zero_missing!r}")
    model.transforms = make_transforms(from_plain(document["transforms"]))
    if state is None:
        return
    width = width_of(state)
    model.n_inputs = whole_number("features", document["features"])
    if names and len(names) != model.n_inputs:
        raise ValueError(f"{len(names)} feature names for {model.n_inputs} features")
    n_outputs = model.n_inputs
    for transform in model.transforms:
        n_outputs = transform.n_outputs(n_outputs)
    if n_outputs != width or not model.n_inputs:  # before there are arrays of that width
        raise ValueError(f"{model.n_inputs} features are transformed to {n_outputs}, got {width} weights")
    takes_any = bool(model.transforms) and model.transforms[0].accepts_any_columns
    if takes_any and model.beginning.constraints:
        model.input_names()  # which raises if they are too many for a vector of signs
    model.restore(state, learner.extra_state(width), model.beginning.signs(model))
    n_columns = 1 if takes_any else model.n_inputs
    X: Any = np.zeros((1, n_columns))
    if model.takes_sparse:
        X = SparseFeatures([], [], [0, 0], n_columns)
    # Raises if a transform was learned from another number of features.
    for transform in model.transforms if takes_any else named(model, model.transforms, model.feature_names):
        X = transform.apply(X, np.array([0, 1]))
    if isinstance(X, SparseFeatures) != model.is_sparse:
        raise ValueError("weights must be sparse exactly when the transforms produce sparse features")
