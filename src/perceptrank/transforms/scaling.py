"""The interface of feature scaling."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

from perceptrank.kernels.arrays import Features, Ints
from perceptrank.stream.query_stream import QueryStream


class Scaling(ABC):
    """A transform of features that works query by query."""

    name: ClassVar[str]

    def transform(self, stream: QueryStream) -> QueryStream:
        """Return a copy of the stream with scaled features."""
        return stream.with_features(self.scale(stream.X, stream.offsets))

    @abstractmethod
    def scale(self, X: Features, offsets: Ints) -> Features:
        """Return a scaled copy of validated features."""

    def learn_and_scale(self, X: Features, offsets: Ints) -> Features:
        """Learn from the features, if this transform learns, and return a scaled copy of them."""
        return self.scale(X, offsets)

    def state(self) -> dict[str, Any]:
        """Return the learned statistics as numbers and lists."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the statistics that `state` returned; raise if they are inconsistent."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scaling) and self.name == other.name and self.state() == other.state()

    def __hash__(self) -> int:
        return hash(self.name)


ScalingLike: TypeAlias = str | Scaling | Sequence[str | Scaling] | None
