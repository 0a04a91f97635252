"""Models as documents: plain values that model files hold."""

from pathlib import Path
from typing import Any, Self

import numpy as np

from perceptrank.io import model_file
from perceptrank.kernels.arrays import Floats
from perceptrank.learners.linear_ranker import LinearRanker
from perceptrank.learners.state import State
from perceptrank.measures import Measure
from perceptrank.transforms.parsing import as_plain, from_plain, make_scalings


class SavedRanker(LinearRanker):
    """A linear ranker that can be saved, and restored to go on as if it had never stopped."""

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        """Return the initial values of the arrays that a learner has beside weights and counts, by name."""
        return {}

    def save(self, path: str | Path) -> None:
        """Write the model to a JSON file, atomically. `perceptrank.load` reads it."""
        model_file.write_model(path, self.as_document())

    def as_document(self) -> dict[str, Any]:
        """Return the model as a dictionary of plain values, as `save` writes it."""
        return self._document_of(self._state)

    def _document_of(self, state: State) -> dict[str, Any]:
        parameters = self.get_params(deep=False)
        if isinstance(parameters.get("measure"), Measure):
            parameters["measure"] = str(parameters["measure"])
        if "scaling" in parameters:
            parameters["scaling"] = as_plain(self.scaling)
        return {
            "algorithm": self.algorithm,
            "parameters": parameters,
            "queries": state.queries,
            "feature_names": list(state.feature_names) if state.feature_names else None,
            "scalings": as_plain(state.scalings),
            "state": state.as_plain() if state.has_begun else None,
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
        """Restore the model that `as_document` converted; raise if the document is inconsistent."""
        parameters = {**document["parameters"]}  # raises for anything but a mapping
        if "scaling" in parameters:
            parameters["scaling"] = from_plain(parameters["scaling"])
        model = cls(**parameters)
        learned = model._state
        learned.queries = model_file.whole_number("queries", document["queries"])
        names, state = document["feature_names"], document["state"]
        if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise ValueError("feature_names must be a list of names, or null")
        learned.feature_names = tuple(names) if names else None
        learned.scalings = make_scalings(from_plain(document["scalings"]))
        if state is not None:
            n_features = len(state["weights"])
            learned.restore(state, model.extra_state(n_features))
            if names and len(names) != n_features:
                raise ValueError(f"{len(names)} feature names for {n_features} features")
            for scaling in learned.scalings:  # raises if it was learned from another number of features
                scaling.scale(np.zeros((1, n_features)), np.array([0, 1]))
        return model
