"""What a learner did, round by round."""

import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from perceptrank.evaluation.plots import draw_running_means
from perceptrank.io.atomic import replaced_file
from perceptrank.kernels.arrays import Floats
from perceptrank.measures import Measure, MeasureLike, parse, parse_all
from perceptrank.stream.frames import make_frame
from perceptrank.stream.validation import check_positive_whole

_MASSES = "masses"


class Trace:
    """Measures of the rankings that were predicted before each answer was seen, one value per query.

    A value is NaN where the measure leaves a query out. ``masses`` holds how much weight moved in each round (V_t in
    the theory; the number of mistakes for the classification perceptron), 0 where nothing was learned.
    """

    def __init__(self, values: Mapping[Measure, Floats], masses: Floats) -> None:
        self._values = dict(values)
        self.masses = masses

    @property
    def measures(self) -> list[Measure]:
        """The recorded measures."""
        return list(self._values)

    @property
    def n_updates(self) -> int:
        """Number of rounds with an update."""
        return int(np.count_nonzero(self.masses))

    def __len__(self) -> int:
        return len(self.masses)

    def __getitem__(self, rounds: slice) -> "Trace":
        """A part of the rounds."""
        return Trace({measure: values[rounds] for measure, values in self._values.items()}, self.masses[rounds])

    def __repr__(self) -> str:
        means = ", ".join(f"{measure} {self.mean(measure):.4f}" for measure in self._values)
        return f"Trace({len(self)} rounds, {self.n_updates} updates, {means})"

    def values(self, measure: MeasureLike) -> Floats:
        """The measure of every round."""
        wanted = parse(measure)
        if wanted not in self._values:
            recorded = ", ".join(repr(str(one)) for one in self._values) or "none"
            raise KeyError(f"{str(wanted)!r} was not recorded; recorded: {recorded}")
        return self._values[wanted].copy()

    def mean(self, measure: MeasureLike) -> float:
        """Mean over all rounds that count; NaN if none does."""
        values = self.values(measure)
        counted = values[~np.isnan(values)]
        return float(counted.mean()) if len(counted) else float("nan")

    def means(self) -> dict[str, float]:
        """Name and mean of every recorded measure."""
        return {str(measure): self.mean(measure) for measure in self._values}

    def running_mean(self, measure: MeasureLike) -> Floats:
        """Mean over the rounds so far, after every round; NaN until the first that counts."""
        values = self.values(measure)
        counts = np.cumsum(~np.isnan(values))
        sums = np.cumsum(np.nan_to_num(values))
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    def window_mean(self, measure: MeasureLike, size: int) -> Floats:
        """Mean over the last `size` rounds, after every round; over all so far until there are as many."""
        check_positive_whole("size", size)
        values = self.values(measure)
        counts = np.concatenate([[0], np.cumsum(~np.isnan(values))])
        sums = np.concatenate([[0.0], np.cumsum(np.nan_to_num(values))])
        ends = np.arange(1, len(values) + 1)
        starts = np.maximum(0, ends - size)
        count = counts[ends] - counts[starts]
        return np.where(count > 0, (sums[ends] - sums[starts]) / np.maximum(count, 1), np.nan)

    def losses(self, measure: MeasureLike) -> Floats:
        """1 minus the measure, for every round; 0 where the measure leaves a query out."""
        return np.nan_to_num(1 - self.values(measure))

    def cumulative_loss(self, measure: MeasureLike) -> Floats:
        """Sum of the losses so far, after every round: what the theorems bound."""
        return np.cumsum(self.losses(measure))

    def to_frame(self, library: str = "pandas") -> Any:
        """A data frame with one row per round: `round` (from 1), the measures by name, and `mass`.

        `library` is "pandas" or "polars", which must be installed.
        """
        columns: dict[str, Any] = {"round": np.arange(1, len(self) + 1)}
        columns |= {str(measure): self.values(measure) for measure in self._values}
        return make_frame(columns | {"mass": self.masses}, library)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to a file in NumPy's format .npz, whole or not at all. `Trace.load` reads it."""
        arrays: dict[str, Any] = {str(measure): values for measure, values in self._values.items()}
        with replaced_file(path) as file:
            np.savez_compressed(file, **arrays | {_MASSES: self.masses})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Trace":
        """Read a trace that `save` has written."""
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
                values = {parse(name): arrays[name] for name in arrays.files if name != _MASSES}
                masses = arrays[_MASSES]
        except (AttributeError, EOFError, KeyError, OSError, TypeError, ValueError, zipfile.BadZipFile) as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise ValueError(f"{path} is not a trace, or is damaged: {error}") from None
        if any(one.shape != masses.shape or one.dtype != np.float64 for one in (masses, *values.values())):
            raise ValueError(f"{path} is not a trace: its arrays differ in length or type")
        return cls(values, masses)

    def plot(self, path: str | Path, measures: Iterable[MeasureLike] | MeasureLike | None = None) -> None:
        """Draw the running means into an image file; the file's suffix says which kind."""
        chosen = parse_all(measures) if measures is not None else self.measures
        curves = {str(measure): self.running_mean(measure) for measure in chosen}
        draw_running_means(path, curves, "mean so far, before learning from each query")

    @classmethod
    def concatenate(cls, traces: Iterable["Trace"]) -> "Trace":
        """One trace of consecutive ones."""
        parts = list(traces)
        if not parts:
            raise ValueError("concatenate needs at least one trace, got none")
        if any(part.measures != parts[0].measures for part in parts):
            raise ValueError("traces must record the same measures")
        values = {one: np.concatenate([part._values[one] for part in parts]) for one in parts[0]._values}
        return cls(values, np.concatenate([part.masses for part in parts]))
