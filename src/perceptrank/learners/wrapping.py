"""Learners made of other learners."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from perceptrank.learners.base import Learner
from perceptrank.learners.state import State


def fresh(learner: Learner) -> Learner:
    """A learner of the same settings that has learned nothing."""
    return type(learner)(**learner.get_params(deep=False))


class Wrapper(Learner):
    """A learner that is given others: their settings, not what they have learned."""

    wraps = True
    depends_on_rate = False  # more than its learner does
    learner: Learner
    cost = "that of its learner"
    _by_blocks = True

    def as_document(self) -> dict[str, Any]:
        """The model as a dictionary of plain values, as `save` writes it."""
        document = super().as_document()
        document["parameters"] |= self._inside()
        return document

    @abstractmethod
    def _inside(self) -> dict[str, Any]:
        """The parameters that are learners, as documents; as they were given, whatever has become of them since."""

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
        """The model of a dictionary that `as_document` made; raises if it does not hold together."""
        from perceptrank.learners import from_document

        parameters = dict(document["parameters"])
        for name, value in parameters.items():
            if name == "learner":
                parameters[name] = from_document(value)
            elif name == "learners" and value is not None:
                parameters[name] = [from_document(one) for one in value]
        return super().from_document(document | {"parameters": parameters})

    @property
    def name(self) -> str:
        """What it is called on the command line, together with what it is around."""
        return f"{self.algorithm}:{self.learner.name}" if self.wraps else self.algorithm


class Ensemble(Wrapper):
    """A wrapper whose members learn side by side, each with a state of its own."""

    average = False
    _members: list[Learner]

    @abstractmethod
    def _make_members(self) -> list[Learner]:
        """Members that have learned nothing, as the parameters say."""

    def _start(self) -> None:
        super()._start()
        self._members = self._make_members()

    def _begin(self, n_features: int) -> State:
        for one in self._members:
            one._begin(n_features)
        return super()._begin(n_features)

    def _parameters_changed(self, parameters: dict[str, Any]) -> None:
        super()._parameters_changed(parameters)
        if not self._has_learned():
            self._members = self._make_members()

    def _check_members(self, members: Sequence[Any], name: str) -> None:
        for one in members:
            if not isinstance(one, Learner):
                raise ValueError(f"{name} must be {'a learner' if name == 'learner' else 'learners'}, got {one!r}")
            if one.scaling is not None:
                raise ValueError(f"scaling must be given to {type(self).__name__}, not to its learners, got {one!r}")

    @property
    def members(self) -> list[Learner]:
        """The learners as they are now."""
        return list(self._members)

    def _keep(self) -> tuple[Any, ...]:
        return super()._keep(), [(one, one._keep()) for one in self._members]

    def _put_back(self, kept: tuple[Any, ...]) -> None:
        own, members = kept
        super()._put_back(own)
        self._members = [one for one, _ in members]
        for one, learned in members:
            one._put_back(learned)

    def as_document(self) -> dict[str, Any]:
        """The model as a dictionary of plain values, as `save` writes it."""
        return super().as_document() | {"members": [one.as_document() for one in self._members]}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
        """The model of a dictionary that `as_document` made; raises if it does not hold together."""
        from perceptrank.learners import from_document

        ensemble = super().from_document(document)
        members = [from_document(one) for one in document["members"]]
        if [type(one) for one in members] != [type(one) for one in ensemble._members]:
            raise ValueError("members must be of the kinds that the parameters name")
        width = None if ensemble._state is None else len(ensemble._state.weights)
        for one in members:
            found = one.n_features_in_ if one._has_learned() else None
            if found != width:
                raise ValueError(f"members must have learned from {width} features, got {found}")
        ensemble._members = members
        return ensemble
