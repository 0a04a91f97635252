"""Supports, documents with coefficients, in units; and the model that holds them."""

from typing import Any, Self

import numpy as np

from perceptrank.io.model_file import finite_numbers, whole_number
from perceptrank.kernels.arrays import FloatRows, Floats, Ints
from perceptrank.learners.kernel.values import gaussian_values, laplacian_values, polynomial_values, squared_norms
from perceptrank.learners.model import Model
from perceptrank.learners.starting import NO_SIGNS
from perceptrank.learners.tally import LARGEST_SQUARED_NORM, ROUNDS
from perceptrank.stream.memory import check_room
from perceptrank.stream.sparse import AnyFeatures
from perceptrank.stream.validation import are_finite, bad_feature

_NONE: Floats = np.empty(0)
_NO_UNITS: Ints = np.empty(0, np.int64)
_FIRST_ROOM = 64
_VALUES_AT_ONCE = 2**18
_LARGEST = 1e100  # in a file: squares, and sums of them, are numbers


class Supports:
    """Documents, one coefficient each, the oldest first; those that one query added are a unit.

    Copies share arrays. Documents are added and removed in place only by the one that made the room for them, and has
    not been copied since; all else makes new arrays.

    Attributes
    ----------
    X, norms : arrays
        The documents, as distances are measured, and their squared norms.
    coefficients, totals : arrays
        Coefficient of each document, and the sum of those it had after every round since it was added.
    sizes, masses, scales : arrays
        Of each unit: the number of documents, the weight that it moved, and the factor by which its coefficients have
        shrunk since.
    products : array
        Inner products of all pairs of units, as they are now; empty if no policy asks for them.
    """

    def __init__(self, n_features: int) -> None:
        self._room: FloatRows = np.empty((0, n_features))
        self._norms = self.coefficients = self.totals = _NONE
        self.sizes, self.masses, self.scales = _NO_UNITS, _NONE, _NONE
        self.products: FloatRows = np.empty((0, 0))
        self._is_own = False

    def __len__(self) -> int:
        return len(self.coefficients)

    @property
    def X(self) -> FloatRows:  # noqa: N802
        """The documents."""
        return self._room[: len(self)]

    @property
    def norms(self) -> Floats:
        """Their squared norms."""
        return self._norms[: len(self)]

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.sizes)

    def copy(self) -> "Supports":
        """Return a copy that can be changed without changing this."""
        copied = Supports.__new__(Supports)
        copied.__dict__.update(self.__dict__)
        self._is_own = copied._is_own = False
        return copied

    def add(self, rows: FloatRows, norms: Floats, coefficients: Floats, mass: float, scale: float, most: int) -> None:
        """Add a unit of this mass and factor; there are at most `most` documents in all, 0 for any number."""
        n, k = len(self), len(rows)
        if not self._is_own or len(self._room) < n + k:
            room = max(_FIRST_ROOM, 2 * (n + k)) if self._is_own or n == 0 else n + k
            room = min(room, most) if most else room
            assert room >= n + k, "more supports than the budget"
            larger, larger_norms = np.empty((room, self._room.shape[1])), np.empty(room)
            larger[:n], larger_norms[:n] = self.X, self.norms
            self._room, self._norms, self._is_own = larger, larger_norms, True
        self._room[n : n + k], self._norms[n : n + k] = rows, norms
        self.coefficients = np.concatenate([self.coefficients, coefficients])
        self.totals = np.concatenate([self.totals, np.zeros(k)])
        self.sizes = np.append(self.sizes, k)
        self.masses, self.scales = np.append(self.masses, mass), np.append(self.scales, scale)

    def add_products(self, others: Floats, own: float) -> None:
        """Add the inner products of the unit that was added with the others and with itself."""
        k = len(others)
        products = np.empty((k + 1, k + 1))
        products[:k, :k], products[k, :k], products[:k, k], products[k, k] = self.products, others, others, own
        self.products = products

    def sums_by_unit(self, values: Floats) -> Floats:
        """Return the sum over each unit of a number per support."""
        return np.add.reduceat(values, np.cumsum(self.sizes) - self.sizes) if len(values) else values

    def remove(self, unit: int, n_units: int = 1) -> None:
        """Remove a unit, or several that follow each other."""
        units, n = slice(unit, unit + n_units), len(self)
        start = int(self.sizes[:unit].sum())
        stop = start + int(self.sizes[units].sum())
        gone, left = slice(start, stop), n - (stop - start)
        room, norms = self._room, self._norms
        if not self._is_own:
            room, norms = np.empty_like(room), np.empty_like(norms)
            room[:start], norms[:start] = self._room[:start], self._norms[:start]
        room[start:left], norms[start:left] = self._room[stop:n], self._norms[stop:n]
        self._room, self._norms, self._is_own = room, norms, True
        self.coefficients, self.totals = np.delete(self.coefficients, gone), np.delete(self.totals, gone)
        self.sizes = np.delete(self.sizes, units)
        self.masses, self.scales = np.delete(self.masses, units), np.delete(self.scales, units)
        if len(self.products):
            self.products = np.delete(np.delete(self.products, units, axis=0), units, axis=1)

    def shrink(self, factor: float) -> None:
        """Multiply all coefficients."""
        if factor != 1.0:
            self.coefficients, self.scales = self.coefficients * factor, self.scales * factor
            self.products = self.products * factor**2

    def count_round(self) -> None:
        """Add the coefficients to their totals."""
        self.totals = self.totals + self.coefficients

    def as_plain(self) -> dict[str, Any]:
        """Return plain values, for a model file."""
        numbers = ("coefficients", "totals", "sizes", "masses", "scales")
        plain = {"documents": self.X.ravel().tolist(), "products": self.products.ravel().tolist()}
        return plain | {name: getattr(self, name).tolist() for name in numbers}

    @classmethod
    def from_plain(cls, plain: dict[str, Any], n_features: int) -> Self:
        """Restore what `as_plain` converted; raise if it is inconsistent."""
        supports = cls(n_features)
        n, n_units = len(plain["coefficients"]), len(plain["sizes"])
        check_room(f"{n} supports", n * (n_features + 3))
        supports._room = finite_numbers("documents", plain["documents"], n * n_features).reshape(n, n_features)
        supports._norms = np.empty(n)
        squared_norms(supports._room, supports._norms)
        if not (supports._norms <= LARGEST_SQUARED_NORM).all():
            raise ValueError("documents are too large: their squared norms overflow")
        supports.coefficients = finite_numbers("coefficients", plain["coefficients"], n)
        supports.totals = finite_numbers("totals", plain["totals"], n)
        supports.sizes = np.array([whole_number("sizes", size) for size in plain["sizes"]], np.int64)
        if (supports.sizes < 1).any() or supports.sizes.sum() != n:
            raise ValueError(f"sizes must be positive and add up to the number of supports, {n}")
        for name in ("masses", "scales"):
            values = finite_numbers(name, plain[name], n_units)
            if (values < 0).any() or (values > _LARGEST).any():
                raise ValueError(f"{name} must not be negative, nor above {_LARGEST:g}")
            setattr(supports, name, values)
        if (supports.scales > 1).any():
            raise ValueError("scales must be at most 1")
        if plain["products"] != []:
            products = finite_numbers("products", plain["products"], n_units**2)
            if (np.abs(products) > _LARGEST).any():
                raise ValueError(f"products must be from {-_LARGEST:g} to {_LARGEST:g}")
            supports.products = products.reshape(n_units, n_units)
        return supports

    def __reduce__(self) -> Any:
        return Supports.from_plain, (self.as_plain(), self._room.shape[1])


class KernelModel(Model):
    """The model of a kernel ranker: supports beside the weights, which are those of its linear part.

    Attributes
    ----------
    supports : Supports
        The documents with coefficients.
    width : float
        Width of the kernel, 0 while it is not known.
    center : array
        The document that others are moved by, so that distances of such as are far from 0 keep their digits.
    spent, shrunk, lost : float
        Of the Forgetron: what removals have cost, and the sum of the logarithms by which all was shrunk. Of it and of
        merging: the sum of the lengths, in the space of the kernel, of what was taken from the function.
    removals, fewest : int
        Number of units removed, and the smallest number of units that there were to choose from.
    """

    kernel: str
    degree: int
    linear: float

    def __init__(self, transforms: Any, kind: str = "", *, average: bool = False) -> None:
        super().__init__(transforms, kind, average=average)
        self._begin_kernel(0)

    def _begin_kernel(self, n_features: int) -> None:
        self.supports = Supports(n_features)
        self.width = self.spent = self.shrunk = self.lost = 0.0
        self.center: Floats = np.zeros(n_features)
        self.removals = self.fewest = 0

    def begin(self, n_features: int, more: dict[str, Floats], **start: Any) -> None:
        super().begin(n_features, more, **start)
        self._begin_kernel(n_features)

    def copy(self) -> "KernelModel":
        state = super().copy()
        assert isinstance(state, KernelModel)
        state.supports = self.supports.copy()
        return state

    def as_plain(self) -> dict[str, Any]:
        ledger = {name: getattr(self, name) for name in ("width", "spent", "shrunk", "lost", "removals", "fewest")}
        return super().as_plain() | {"kernel": ledger | {"center": self.center.tolist()} | self.supports.as_plain()}

    def restore(self, plain: dict[str, Any], more: dict[str, Floats], signs: Floats = NO_SIGNS) -> None:
        super().restore(plain, more, signs)
        kept = plain["kernel"]
        self.supports = Supports.from_plain(kept, self.n_features)
        self.center = finite_numbers("center", kept["center"], self.n_features)
        for name in ("width", "spent", "shrunk", "lost"):
            setattr(self, name, float(finite_numbers(name, [kept[name]], 1)[0]))
        if self.lost < 0 or self.shrunk < 0:
            raise ValueError(f"lost and shrunk must not be negative, got {self.lost} and {self.shrunk}")
        self.removals, self.fewest = (whole_number(name, kept[name]) for name in ("removals", "fewest"))
        if self.width < 0 or (self.width == 0 and len(self.supports)):
            raise ValueError(f"width must be positive if there are supports, got {self.width}")

    # Ranking

    def placed(self, X: Any) -> tuple[FloatRows, Floats]:
        """Return documents as distances are measured, and their squared norms."""
        placed = np.ascontiguousarray(X, dtype=np.float64)
        if self.width > 0.0 or self.center.any():
            placed = placed - self.center
        norms = np.empty(len(placed))
        squared_norms(placed, norms)
        return placed, norms

    def values(
        self, X: FloatRows, norms: Floats, others: FloatRows, other_norms: Floats, out: FloatRows | None = None
    ) -> FloatRows:
        """Return the values of the kernel for all pairs of two lists of documents, given with their squared norms."""
        products: FloatRows = np.matmul(X, others.T, out=out)
        width = self.width or 1.0
        if self.kernel == "gaussian":
            gaussian_values(0.5 / width / width, norms, other_norms, products)
        elif self.kernel == "laplacian":
            laplacian_values(1.0 / width, norms, other_norms, products)
        else:
            polynomial_values(1.0 / width / width, self.degree, products)
        return products

    @property
    def is_linear(self) -> bool:
        return False

    @property
    def linear_part(self) -> float:
        """Factor of inner products of documents, beside the value of the kernel."""
        return self.linear / self.width / self.width

    def score(self, X: FloatRows, values: FloatRows, by_current: Floats, by_mean: Floats) -> bool:
        """Write scores by the current function and the mean, given values of the kernel; False if one is no number."""
        supports = self.supports
        by_current[:] = values @ supports.coefficients
        if self.linear:
            by_current += X @ self.weights
        if not self.average or not self.tally[ROUNDS]:
            by_mean[:] = by_current
            return bool(np.isfinite(by_current).all())
        by_mean[:] = values @ (supports.totals / self.tally[ROUNDS])
        if self.linear:
            by_mean += X @ (self.total / self.tally[ROUNDS])
        return bool(np.isfinite(by_current).all() and np.isfinite(by_mean).all())

    def linear_scores(self, X: AnyFeatures, names: tuple[str, ...] | None = None, *, current: bool = False) -> Floats:
        scores, other = np.zeros(X.shape[0]), np.empty(X.shape[0])
        finite = are_finite(X)
        if finite and self.has_begun and len(self.supports):
            supports = self.supports
            by_mean = not current and self.ranks_with == "mean"
            step = max(1, _VALUES_AT_ONCE // len(supports))
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                for start in range(0, len(scores), step):
                    rows = slice(start, start + step)
                    placed, norms = self.placed(X[rows])
                    own, mean = (other, scores) if by_mean else (scores, other)
                    values = self.values(placed, norms, supports.X, supports.norms)
                    finite = finite and self.score(placed, values, own[rows], mean[rows])
        if not finite:
            if are_finite(X):
                raise ValueError("scores overflow: the features are too large")
            raise bad_feature(X, 0, names)
        return scores

    @property
    def coefficients(self) -> Floats:
        """Unavailable: a kernel perceptron has no weight vector."""
        raise AttributeError(
            "a kernel perceptron has no weights of features alone: it ranks by its supports_ with the coefficients "
            "dual_coef_, and by linear_coef_"
        )
