"""Base classes of learners that contain other learners."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.learners.clicks.showing import Showing
from perceptrank.learners.learner import Learner
from perceptrank.learners.learning import learn_queries, policies_of, takes_clicks
from perceptrank.learners.model import Model
from perceptrank.learners.saving import fresh
from perceptrank.learners.sklearn_adapter import differ
from perceptrank.learners.starting import Beginning
from perceptrank.stream.sparse import AnyFeatures
from perceptrank.stream.validation import ParameterError
from perceptrank.transforms.transform import TransformLike


def without_transforms(learner: Learner) -> Learner:
    """Return an unlearned copy of a learner that takes features as they are."""
    settings = learner.get_params(deep=False)
    if "transforms" in settings:
        settings["transforms"] = []
    if isinstance(settings.get("learner"), Learner):
        settings["learner"] = without_transforms(settings["learner"])
    return type(learner)(**settings)


class Composite(Showing, Learner):
    """A learner constructed from others, as `learner` or `learners`: from their settings, not their state.

    It works with copies. Later changes to the given learners have no effect before the next `fit`.
    """

    depends_on_rate = False  # beyond the dependence of its learners
    depends_on_scale = False

    def _follow_parameters(self, before: dict[str, Any], changed: set[str]) -> None:
        if changed & {"learner", "learners"}:  # its transforms may be theirs, or depend on them
            changed = changed | {"transforms"}
        super()._follow_parameters(before, changed)


class Wrapper(Composite):
    """A learner constructed around one other learner."""

    cost = "that of its learner"
    learner: Learner

    @property
    def _copy(self) -> Learner:
        inner = self._model.inner
        assert inner is not None
        return inner

    def __post_init__(self) -> None:
        self._model = Model([])
        self._copy_learner()
        super().__post_init__()

    def _wrapped(self) -> Any:
        """Return the learner that the settings name."""
        return self.learner

    def _copy_learner(self) -> None:
        if isinstance(learner := self._wrapped(), Learner):
            model = self._model.copy()
            model.inner = fresh(learner)
            self._model = model

    def _configured(self, model: Model | None = None) -> Model:
        model = super()._configured(model)
        model.inner = self._model.inner
        return model

    def _follow_parameters(self, before: dict[str, Any], changed: set[str]) -> None:
        learner = self._wrapped()
        if self.learner is not before["learner"] and self._model.has_begun and not _can_continue(learner, self._copy):
            raise ValueError(
                f"learner cannot be changed to {learner!r} once something was learned: make a new {type(self).__name__}"
            )
        if "learner" in changed:
            self._copy_learner()
        super()._follow_parameters(before, changed)

    @property
    def name(self) -> str:
        """Name on the command line, together with that of the wrapped learner."""
        return f"{self.algorithm}:{self._copy.name}"

    def _check_parameters(self) -> None:
        if not isinstance(self._wrapped(), Learner):
            raise ParameterError("learner", "must be a learner", self.learner)
        super()._check_parameters()


def _can_continue(learner: Any, other: Learner) -> bool:
    """Tell whether a learner can continue from the state of another."""
    if type(learner) is not type(other):
        return False
    if any(differ(getattr(learner, name), getattr(other, name)) for name in other.fixed):
        return False
    if isinstance(learner, Wrapper) and isinstance(other, Wrapper):
        return _can_continue(learner._wrapped(), other._wrapped())
    return True


class StepWrapper(Wrapper):
    """A wrapper that changes the steps of its learner, which works on the wrapper's own state."""

    @property
    def average(self) -> bool:  # type: ignore[override]
        """True if the learner ranks with the mean of all iterates."""
        return self._copy.average

    @property
    def transforms(self) -> TransformLike:  # type: ignore[override]
        """The learner's transforms."""
        return self._copy.transforms

    def _own_transform(self) -> TransformLike:
        return self._copy._own_transform()

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        return self._copy.extra_state(n_features)

    def _configured(self, model: Model | None = None) -> Model:
        model = super()._configured(self._copy._configured(model))
        model.beginning = self._copy.model.beginning
        return model

    def _pass(
        self, state: Model, X: AnyFeatures, relevance: Floats, offsets: Ints, predicted: Floats, masses: Floats
    ) -> int:
        return self._copy._pass(state, X, relevance, offsets, predicted, masses)


class Ensemble(Composite):
    """A learner whose members learn in parallel, each with its own state."""

    average = False

    def _own_transform(self) -> TransformLike:
        has_default_learners = getattr(self, "learners", ()) is None
        return "auto" if has_default_learners and self.transforms is None else self.transforms

    @abstractmethod
    def _make_members(self) -> list[Learner]:
        """Return new members, as the parameters define them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._model.members = self._make_members()
        self._start_as_members()

    def _follow_parameters(self, before: dict[str, Any], changed: set[str]) -> None:
        super()._follow_parameters(before, changed)
        if not self._model.has_begun or "learner" in changed:
            model, new = self._model.copy(), self._make_members()
            if model.has_begun:  # they go on with the new settings
                for member, template in zip(model.members, new, strict=True):
                    member.set_params(**template.get_params(deep=False))
            else:
                model.members = new
            self._model = model
        self._start_as_members()

    def _start_as_members(self) -> None:
        starts = [member.model.beginning for member in self._model.members]
        ranks, names_features = any(start.ranks for start in starts), any(start.names_features for start in starts)
        self._model.beginning = Beginning(ranks=ranks, names_features=names_features)

    def _learn_in_members(
        self, state: Model, X: AnyFeatures, relevance: Floats, offsets: Ints, scores: Floats, moved: Floats
    ) -> int:
        """Let every member learn a block, each with a row of scores and of masses; return as `_pass` does.

        Masses hold the query weights at first, as for `_pass`.
        """
        n = len(offsets) - 1
        for place, member in enumerate(state.members):
            done = learn_queries(member, member.model, X, relevance, offsets, scores[place], moved[place])
            if done < n:
                return done
        return n

    @property
    def members(self) -> list[Learner]:
        """The learners as they are now, for inspection; learning replaces them by others."""
        return list(self._model.members)


def check_learners(learners: Any, refused: type[Learner] | None = None) -> None:
    """Raise if the setting `learners` is not a list of learners, or has one of a class that is refused."""
    if not isinstance(learners, Sequence):
        raise ParameterError("learners", "must be a list of learners", learners)
    if not learners:
        raise ValueError("learners must be at least one learner, got none")
    for learner in learners:
        if not isinstance(learner, Learner) or (refused is not None and isinstance(learner, refused)):
            but = "" if refused is None else f" other than {refused.algorithm}s"
            raise ParameterError("learners", f"must be learners{but}", learner)
    if len({takes_clicks(learner) for learner in learners if learner.learns}) > 1:
        raise ValueError("learners must all learn from grades, or all from clicks, got both")
    kinds = [set(found) for found in map(policies_of, learners) if found]
    if kinds and not set.intersection(*kinds):
        raise ValueError("learners must be able to learn from lists of one policy, got some that have none in common")
