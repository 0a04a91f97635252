"""The base of learners that learn from clicks."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from perceptrank.clicks.policies import Policy
from perceptrank.kernels.arrays import Floats
from perceptrank.learners.clicks.lists import N_PLACES
from perceptrank.learners.clicks.showing import Showing
from perceptrank.learners.compiled_learner import CompiledLearner
from perceptrank.learners.model import Model
from perceptrank.learners.starting import Startable


class ClickLearner(Showing, Startable, CompiledLearner):
    """A learner that shows lists and learns from what was clicked in them, or from logs of such lists.

    Its ranking, for evaluation and export, is the one without exploration.

    Attributes
    ----------
    explores : str
        Name of the exploration policy of its own.
    policies : tuple of str
        Policies whose lists it can learn from; empty if any will do.

    Examples
    --------
    >>> import numpy as np
    >>> import perceptrank as pr
    >>> ranker, X = pr.PDGD(), np.random.default_rng(0).normal(size=(6, 3))
    >>> shown = ranker.show(X, n=4, rng=1)
    >>> shown.order, shown.policy
    (array([2, 4, 5, 0]), 'plackett-luce:1.0')
    >>> ranker.learn_clicks(shown, [0, 0, 1, 0])
    True
    """

    takes = "clicks"
    explores: ClassVar[str] = "none"
    policies: ClassVar[tuple[str, ...]] = ()

    def own_policy(self, model: Model) -> str | Policy:
        """Return the exploration policy for the next list, given the model with its counts.

        Parameters
        ----------
        model : Model
        """
        return self.explores

    def sharpness(self, model: Model) -> float | None:
        """Return the standard deviation of the scores that Plackett-Luce draws a list by, None for those of the model.

        Parameters
        ----------
        model : Model
        """
        return None

    def extra_state(self, n_features: int) -> dict[str, Floats]:
        """Return clicks and showings per place, and the evidence that rules may count, before anything was learned."""
        return {"place_clicks": np.zeros(N_PLACES), "place_shown": np.zeros(N_PLACES), "evidence": np.zeros(1)}

    def _click_settings(self, *settings: Any, learning_rate: float = 1.0, decay: float = 1.0) -> tuple[Any, ...]:
        """Return the settings as the pass of a click rule takes them; `settings` are the rule's own."""
        return (bool(self.average), learning_rate, decay), settings
