"""Models as documents: plain values that model files hold."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from perceptrank.io import model_file
from perceptrank.kernels.arrays import Floats
from perceptrank.learners.linear_ranker import LinearRanker
from perceptrank.learners.starting import SIGNS, as_initial, as_signs, initial_as_plain, initial_from_plain
from perceptrank.learners.state import State, width_of
from perceptrank.measures import Measure
from perceptrank.stream.sparse import SparseFeatures
from perceptrank.transforms.parsing import as_plain, from_plain, make_transforms

_OPTIONAL = {"initial_weights", *SIGNS}


class SavedRanker(LinearRanker):
    """A linear ranker that can be saved, and restored to go on as if it had never stopped."""

    never_negative: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def _signs(self, state: State) -> Floats:
        """Return the signs that weights of transformed features keep, empty if none is constrained."""

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        """Return the arrays that a learner has beside weights and counts, before anything was learned.

        Parameters
        ----------
        n_features : int
            Number of features, after the transforms.

        Returns
        -------
        dict of str to array
            Initial values by name; empty for most learners.
        """
        return {}

    def _check_restored(self, state: State) -> None:
        """Raise if the arrays that `extra_state` names, read from a file, are none that it can have."""
        for name in self.never_negative:
            if (state.more[name] < 0).any():
                raise ValueError(f"{name} must not be negative")

    def save(self, path: str | Path) -> None:
        """Write the model to a JSON file, atomically. `perceptrank.load` reads it.

        Parameters
        ----------
        path : str or Path
            The file; one of that name is replaced.

        Raises
        ------
        OSError
            If it cannot be written; a file that was there is left as it was.
        """
        model_file.write_model(path, self.as_document())

    def as_document(self) -> dict[str, Any]:
        """Return the model as a dictionary of plain values, as `save` writes it.

        Returns
        -------
        dict
            Settings, transforms and everything that was learned.
        """
        return self._document_of(self._state)

    def _document_of(self, state: State) -> dict[str, Any]:
        parameters = self.get_params(deep=False)
        if isinstance(parameters.get("measure"), Measure):
            parameters["measure"] = str(parameters["measure"])
        for name in ("transforms", "scaling"):  # the latter of learners of others
            if name in parameters:
                parameters[name] = as_plain(self.transforms)
        parameters = self._without_unused(parameters)
        return {
            "algorithm": self.algorithm,
            "parameters": parameters,
            "queries": state.queries,
            "features": state.n_inputs,
            "feature_names": list(state.feature_names) if state.feature_names else None,
            "transforms": as_plain(state.transforms),
            "state": state.as_plain() if state.has_begun else None,
        }

    def _without_unused(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Leave out where a learner starts and what constrains it if nothing does, as earlier versions know neither."""
        kept = {name: value for name, value in parameters.items() if name not in _OPTIONAL or value is not None}
        for name in _OPTIONAL & set(kept):
            is_start = name == "initial_weights"
            kept[name] = initial_as_plain(as_initial(kept[name])) if is_start else list(as_signs(**{name: kept[name]}))
        return kept

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
        """Restore the model that `as_document` converted.

        Parameters
        ----------
        document : dict
            As `as_document` returns it.

        Returns
        -------
        Learner
            Of this class; it goes on learning as if it had never stopped.

        Raises
        ------
        ValueError, KeyError, or TypeError
            If the document is inconsistent or incomplete.
        """
        parameters = {**document["parameters"]}  # raises for anything but a mapping
        if "scaling" in parameters and "transforms" in cls.parameter_names:  # of version 1
            parameters["transforms"] = parameters.pop("scaling")
        for name in ("transforms", "scaling"):
            if name in parameters:
                parameters[name] = from_plain(parameters[name])
        if "initial_weights" in parameters:
            parameters["initial_weights"] = initial_from_plain(parameters["initial_weights"])
        model = cls(**parameters)
        learned = model._state
        learned.queries = model_file.whole_number("queries", document["queries"])
        names, state = document["feature_names"], document["state"]
        if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise ValueError("feature_names must be a list of names, or null")
        learned.feature_names = tuple(names) if names else None
        transforms = document["transforms"] if "transforms" in document else document["scalings"]  # of version 1
        learned.transforms = make_transforms(from_plain(transforms))
        if state is not None:
            width = width_of(state)
            learned.n_inputs = model_file.whole_number("features", document.get("features", width))
            if names and len(names) != learned.n_inputs:
                raise ValueError(f"{len(names)} feature names for {learned.n_inputs} features")
            made = learned.n_inputs
            for transform in learned.transforms:
                made = transform.n_outputs(made)
            if made != width or not learned.n_inputs:  # before there are arrays of that width
                raise ValueError(f"{learned.n_inputs} features are transformed to {made}, got {width} weights")
            learned.restore(state, model.extra_state(width), model._signs(learned))
            model._check_restored(learned)
            takes_any = bool(learned.transforms) and learned.transforms[0].accepts_any_columns
            n_columns = 1 if takes_any else learned.n_inputs
            X: Any = np.zeros((1, n_columns))
            if learned.takes_sparse:
                X = SparseFeatures([], [], [0, 0], n_columns)
            for transform in learned.transforms:  # raises if it was learned from another number of features
                X = transform.apply(X, np.array([0, 1]))
            if isinstance(X, SparseFeatures) != learned.is_sparse:
                raise ValueError("weights must be those of sparse features if and only if the transforms make such")
        return model
