"""The interface of feature scaling."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

from perceptrank.kernels.arrays import Features, Ints
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import as_features


class Scaling(ABC):
    """A transform of features that works query by query."""

    name: ClassVar[str]

    def transform(self, stream: QueryStream) -> QueryStream:
        """Return a copy of the stream with scaled features."""
        return stream.with_features(self.scale(stream.X, stream.offsets))

    @abstractmethod
    def scale(self, X: Features, offsets: Ints) -> Features:
        """Return a scaled copy of the features of queries with these offsets."""

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


def checked(scaling: Scaling, scaled: Any, X: Features) -> Features:
    """Return what a transform, perhaps of another package, has made of X; raise unless kernels can take it for X.

    Values that are not finite are left to the kernels, which notice them.
    """
    name = type(scaling).__name__
    try:
        features = as_features(scaled)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name} must return scaled features: {error}") from None
    if features.shape != X.shape:
        raise ValueError(f"{name} must return features of the shape it was given, {X.shape}, got {features.shape}")
    return features


ScalingLike: TypeAlias = str | Scaling | Sequence[str | Scaling] | None
