"""What a learner's theorem promises, before and after."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from perceptrank.kernels.list_pass import LARGEST_REACH, MASS, ROUNDS, SQUARED_STEPS, UPDATES
from perceptrank.learners.estimator import Estimator
from perceptrank.learners.state import State
from perceptrank.measures.measure import parse
from perceptrank.stream.validation import check_not_negative, check_positive
from perceptrank.theory.bounds import AnyComparator, check_comparator, from_constant
from perceptrank.theory.certificates import Certificate, Promise


class Guaranteed(Estimator):
    """A learner that says what can be promised of it, if anything. With a theorem, it overrides `_constant`."""

    algorithm: ClassVar[str]
    compared_by: ClassVar[str | None] = None  # the surrogate of comparators in its theorem on rankings, if it has one
    average: bool

    @abstractmethod
    def _learned(self) -> State:
        """What was learned; raises if nothing was."""

    def guarantee(
        self,
        *,
        diameter: float | None = None,
        radius: float | None = None,
        margin: float | None = None,
        comparator: AnyComparator | None = None,
    ) -> float:
        """What the learner's theorem allows it to lose at most, see `perceptrank.theory.bounds`.

        `diameter` or `radius` are those of the stream; without a diameter twice the radius takes its place. `margin` is
        that of a separable stream, `comparator` the norm and cumulative surrogate of some fixed ranker. The theorem is
        about rankings by the current weights, not by their mean.
        """
        given = {"diameter": diameter, "radius": radius}
        for name, value in given.items():
            if value is not None:
                check_not_negative(name, value)
        self._check_comparator(comparator)
        constant, _ = self._constant(diameter, radius)
        return from_constant(constant, margin, comparator)

    def certificate(
        self,
        *,
        margin: float | None = None,
        comparator: AnyComparator | None = None,
        diameter: float | None = None,
        radius: float | None = None,
    ) -> Certificate:
        """What is promised for all that was learned so far, what happened, and by how much the promise holds.

        Given the margin of the stream (any unit vector's will do), or a comparator:

        - a posteriori, straight from the proof: S <= |w| / (learning_rate margin);
        - from the steps: as the theorem, with the longest step per weight moved in place of the diameter;
        - a priori, the theorem itself, if `diameter` or `radius` is given.

        S, the weight moved in all rounds, is at least the cumulative loss. All this is about features after scaling,
        and about settings that have not been changed since the learning began.
        """
        self._check_comparator(comparator)
        state = self._learned()
        rate = float(getattr(self, "learning_rate", 1.0))
        mass, norm = float(state.tally[MASS]), float(np.linalg.norm(state.weights))
        reach = float(np.sqrt(state.tally[LARGEST_REACH]))
        own, formula = self._constant(reach, reach)
        suffix = "/ margin²" if margin is not None else "as C in L + U √(C L) + U² C"
        steps = Promise("from the steps", f"{formula} {suffix}", from_constant(own, margin, comparator), mass)
        if comparator is None:
            bound = norm / (rate * check_positive("margin", margin))
            promises = [Promise("a posteriori", "|w| / (rate margin)", bound, mass), steps]
        else:
            bound = comparator[1] + comparator[0] * norm / rate
            promises = [Promise("a posteriori", "L + U |w| / rate", bound, mass), steps]
        if diameter is not None or radius is not None:
            bound = self.guarantee(diameter=diameter, radius=radius, margin=margin, comparator=comparator)
            promises.append(Promise("a priori", f"{formula} {suffix}", bound, mass))
        return Certificate(
            self.algorithm,
            int(state.tally[ROUNDS]),
            int(state.tally[UPDATES]),
            mass,
            float(state.tally[SQUARED_STEPS]),
            reach,
            norm,
            tuple(promises),
            bool(self.average),
        )

    def _check_comparator(self, comparator: AnyComparator | None) -> None:
        measure = getattr(self, "measure", None)
        check_comparator(comparator, self.compared_by, None if measure is None else parse(measure))

    def _constant(self, diameter: float | None, radius: float | None) -> tuple[float, str]:
        """The constant C of the learner's theorem, and how it is written."""
        raise ValueError(f"{self.algorithm} has no theorem of this kind")
