"""Traces: the measures of a learner, round by round."""

from __future__ import annotations

import errno
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from perceptrank.io.atomic import replaced_file
from perceptrank.io.errors import FileFormatError, FormatError
from perceptrank.io.model_file import WRITTEN_BY, too_new
from perceptrank.kernels.arrays import Floats
from perceptrank.measures import Measure, MeasureLike, parse, parse_all
from perceptrank.stream.validation import check_confidence, check_positive_whole

if TYPE_CHECKING:
    from perceptrank.evaluation.cards import CardCell
    from perceptrank.evaluation.changes import Change

_MASSES = "masses"
_WEIGHTS = "weights"
_LIMIT_PER_BYTE = 100  # an honest trace may be compressed a thousandfold, but then it is small
_LEAST_LIMIT = 256 * 2**20
_DAMAGE = (ValueError, TypeError, EOFError, RuntimeError, OverflowError, struct.error, zlib.error, zipfile.BadZipFile)
_VERSION = 1
_N_RATES = 40  # of bounds at all times
_COMMENT = re.compile(rb"perceptrank trace, version (\d{1,9}), written by ([ -~]+)")


class Trace:
    """Measures of the rankings predicted before each answer was revealed, one value per query.

    Parameters that several methods take:

    - `measure`: a Measure or its name. Methods raise KeyError if it was not recorded; where it may be left out, it is
      the first that was recorded.
    - `path`: a file. Writing replaces it atomically; the suffix of an image selects its format.
    - `library`: library of a data frame, "pandas" or "polars", which must be installed.
    - `size`: number of rounds; all so far count while there are fewer.
    - `false_alarms`, `tolerance`: probability of an alarm although nothing has become worse, and the largest rise of
      the mean loss that is not reported.
    - `traces`: traces of consecutive rounds.

    Parameters
    ----------
    values : mapping of Measure to array of shape (rounds,)
        NaN where the measure leaves a query out.
    masses : array of shape (rounds,)
        Size of each update: V_t in the theory, the number of mistakes for the classification perceptron, both times the
        weight of the query; 0 without an update.
    query_weights : array of shape (rounds,), optional
        Query weights, used in all means and cumulative losses.

    Examples
    --------
    >>> from perceptrank import separable, ListwisePerceptron
    >>> trace = ListwisePerceptron().learn(separable(200, seed=1).stream, ["ndcg@10", "ap"])
    >>> len(trace), [str(measure) for measure in trace.measures]
    (200, ['ndcg@10', 'ap'])
    >>> bool(trace.mean("ap") > 0.9), bool(trace.cumulative_loss("ap")[-1] < 20)
    (True, True)
    """

    def __init__(self, values: Mapping[Measure, Floats], masses: Floats, query_weights: Floats | None = None) -> None:
        self._values, self.masses, self.query_weights = dict(values), masses, query_weights

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

    def __getitem__(self, rounds: slice) -> Trace:
        """Select rounds."""
        values = {measure: values[rounds] for measure, values in self._values.items()}
        return Trace(values, self.masses[rounds], None if self.query_weights is None else self.query_weights[rounds])

    def __repr__(self) -> str:
        means = "".join(f", {measure} {self.mean(measure):.4f}" for measure in self._values)
        return f"Trace({len(self)} rounds, {self.n_updates} updates{means})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the means, overall and over the last tenth of the rounds."""
        from perceptrank.evaluation.cards import RISING, Bar, card

        recent = self[-max(1, len(self) // 10) :]
        rows: list[list[CardCell]] = [
            [str(measure), self.mean(measure), recent.mean(measure), Bar(self.mean(measure), RISING)]
            for measure in self._values
        ]
        title = f"Trace of {len(self):,} rounds, {self.n_updates:,} updates"
        return card(title, [], ["measure", "mean", f"of the last {len(recent):,}", ""], rows)

    def values(self, measure: MeasureLike) -> Floats:
        """Return a measure for every round, NaN where it leaves a query out."""
        wanted = parse(measure)
        if wanted not in self._values:
            recorded = ", ".join(repr(str(measure)) for measure in self._values) or "none"
            raise KeyError(f"{str(wanted)!r} was not recorded; recorded: {recorded}")
        return self._values[wanted].copy()

    def mean(self, measure: MeasureLike) -> float:
        """Return the weighted mean over all rounds that the measure does not leave out, NaN if there are none."""
        values = self.values(measure)
        if self.query_weights is not None and len(values):
            return float(running_means(values, self.query_weights)[-1])
        counted = values[~np.isnan(values)]
        return float(counted.mean()) if len(counted) else float("nan")

    def means(self) -> dict[str, float]:
        """Return the mean of every recorded measure, by its name."""
        return {str(measure): self.mean(measure) for measure in self._values}

    def running_mean(self, measure: MeasureLike) -> Floats:
        """Return the mean over the rounds so far, after every round; NaN while all queries were left out."""
        return running_means(self.values(measure), self.query_weights)

    def window_mean(self, measure: MeasureLike, size: int) -> Floats:
        """Return the mean over the last rounds, after every round; NaN where all queries of the window are left out."""
        check_positive_whole("size", size)
        values = self.values(measure)
        weights = np.ones(len(values)) if self.query_weights is None else self.query_weights
        counted = ~np.isnan(values) & (weights > 0)
        counts = np.concatenate([[0], np.cumsum(counted)])
        wholes = np.concatenate([[0.0], np.cumsum(np.where(counted, weights, 0.0))])
        sums = np.concatenate([[0.0], np.cumsum(weights * np.nan_to_num(values))])
        ends = np.arange(1, len(values) + 1)
        starts = np.maximum(0, ends - size)
        whole = np.where(counts[ends] > counts[starts], wholes[ends] - wholes[starts], np.nan)
        means: Floats = (sums[ends] - sums[starts]) / np.where(whole > 0, whole, np.nan)
        return means

    def losses(self, measure: MeasureLike) -> Floats:
        """Return 1 minus the measure for every round, 0 where it leaves a query out."""
        return np.nan_to_num(1 - self.values(measure))

    def cumulative_loss(self, measure: MeasureLike) -> Floats:
        """Return the sum of the losses so far, times the query weights, after every round; the theorems bound it."""
        losses = self.losses(measure)
        return np.cumsum(losses if self.query_weights is None else self.query_weights * losses)

    def risk_bound(
        self, confidence: float = 0.95, measure: MeasureLike | None = None, *, at_all_times: bool = False
    ) -> float:
        """Bound the expected loss on new queries of the rankers that were used, on average over the rounds.

        Let the queries be drawn independently from one distribution, and let a ranker's risk be its expected loss, 1
        minus the measure, on a new query. With probability at least `confidence`, the mean risk of the rankers of T
        rounds is at most their mean loss plus √(ln(1 / (1 - confidence)) / (2 T)), for any learner (Hoeffding and
        Azuma's inequality). It does not bound the risk of the last one: use `evaluate` on held-out queries for that.

        Queries that the measure leaves out do not count. Query weights must not depend on what is drawn: with
        them, 1 / T is the sum of their squares, divided by the square of their sum. Without queries, it is NaN.

        The bound is for a number of rounds that was fixed beforehand. With `at_all_times` it holds after every round at
        once, so that one may stop whenever it is small enough. It is then the smallest over λ = 2, 1, 1/2, ... of (λ
        times the loss so far + ln(1 / (share of this λ times (1 - confidence)))) / ((1 - exp(-λ)) T): of the order of
        1 / T where little is lost (Ville's inequality).

        Parameters
        ----------
        confidence : float between 0 and 1
            Chance that the bound holds.
        at_all_times : bool
            Bound the risk after all numbers of rounds at once.

        Examples
        --------
        >>> from perceptrank import separable, ListwisePerceptron
        >>> trace = ListwisePerceptron().learn(separable(2000, seed=1).stream)
        >>> round(1 - trace.mean("ndcg"), 4), round(trace.risk_bound(0.95), 4)
        (0.0003, 0.0277)
        >>> round(trace.risk_bound(0.95, at_all_times=True), 4)
        0.0029
        """
        chance = check_confidence(confidence)
        values = self.values(self._first() if measure is None else measure)
        weights = np.ones(len(values)) if self.query_weights is None else self.query_weights
        counted = ~np.isnan(values) & (weights > 0)
        if not counted.any():
            return float("nan")
        if at_all_times:
            losses, largest = weights[counted] @ (1 - values[counted]), weights[counted].max()
            steps = np.arange(_N_RATES)
            rates, shares = 2.0 ** (1 - steps), 1 / ((steps + 1) * (steps + 2))
            bounds = (rates * losses - np.log(shares * (1 - chance))) * largest / -np.expm1(-rates * largest)
            return float(min(1.0, bounds.min() / weights[counted].sum()))
        shares = weights[counted] / weights[counted].sum()
        deviation = np.sqrt(np.log(1 / (1 - chance)) / 2 * (shares @ shares))
        return float(min(1.0, shares @ (1 - values[counted]) + deviation))

    def changes(
        self, measure: MeasureLike | None = None, *, false_alarms: float = 0.01, tolerance: float = 0.02
    ) -> list[Change]:
        """Return where rankings became worse: the alarms of a sequential test of the losses, 1 minus the measure.

        See `ChangeDetector` for what is promised. Queries of weight 0 are left out; other weights do not count.
        """
        from perceptrank.evaluation.changes import ChangeDetector

        losses = 1 - self.values(self._first() if measure is None else measure)
        if self.query_weights is not None:
            losses[self.query_weights == 0] = np.nan
        # Measures may end a rounding error beyond 1.
        return ChangeDetector(false_alarms, tolerance=tolerance).add_all(np.clip(losses, 0.0, 1.0))

    def _first(self) -> Measure:
        if not self._values:
            raise ValueError("no measure was recorded")
        return self.measures[0]

    def to_frame(self, library: str = "pandas") -> Any:
        """Convert to a data frame with one row per round: `round` (from 1), the measures by name, and `mass`.

        A trace with weights has them in a column `weight`.
        """
        from perceptrank.stream.frames import make_frame

        columns: dict[str, Any] = {"round": np.arange(1, len(self) + 1)}
        columns |= {str(measure): self.values(measure) for measure in self._values}
        columns |= {"mass": self.masses} | ({} if self.query_weights is None else {"weight": self.query_weights})
        return make_frame(columns, library)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to an .npz file; `Trace.load` reads it."""
        arrays: dict[str, Any] = {str(measure): values for measure, values in self._values.items()}
        arrays |= {_MASSES: self.masses} | ({} if self.query_weights is None else {_WEIGHTS: self.query_weights})
        with replaced_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.comment = f"perceptrank trace, version {_VERSION}, written by {WRITTEN_BY}".encode()
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, np.asarray(array), allow_pickle=False)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, max_bytes: int | None = None) -> Trace:
        """Read a trace written by `save`.

        Parameters
        ----------
        max_bytes : int, optional
            Limit on the size of the arrays in memory; default 100 times the size of the file, at least 256 MiB.

        Raises
        ------
        FormatError
            If it is not a trace, is damaged, of a newer version, or larger than `max_bytes`.
        """
        if max_bytes is not None:
            check_positive_whole("max_bytes", max_bytes)
        with open(path, "rb") as file:
            limit = max_bytes or max(_LEAST_LIMIT, _LIMIT_PER_BYTE * os.fstat(file.fileno()).st_size)
            try:
                arrays = _read_arrays(path, file, limit)
                masses, weights = arrays.pop(_MASSES), arrays.pop(_WEIGHTS, None)
                values = {parse(name): array for name, array in arrays.items()}
            except FormatError:
                raise
            except KeyError as error:
                raise FileFormatError(path, f" is not a trace: it has no {error}") from None
            except (*_DAMAGE, OSError) as error:
                if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # not about the content
                    raise
                raise FileFormatError(path, f" is not a trace, or is damaged: {error}") from None
        vectors = [*values.values(), *([] if weights is None else [weights])]
        if any(len(vector) != len(masses) for vector in vectors):
            raise FileFormatError(path, " is not a trace: its arrays differ in length")
        if weights is not None and not (np.isfinite(weights) & (weights >= 0)).all():
            raise FileFormatError(path, " is not a trace: its query weights must be finite and not negative")
        return cls(values, masses, weights)

    def plot(
        self,
        path: str | Path,
        measures: Iterable[MeasureLike] | MeasureLike | None = None,
        *,
        window: int | None = None,
        changes: Sequence[Change] = (),
    ) -> None:
        """Plot the running means, or means over windows.

        Parameters
        ----------
        measures : str, Measure, or several, optional
            Default all recorded measures.
        window : int, optional
            Plot means over that many rounds on a linear axis, instead of running means.
        changes : list of Change
            Alarms to mark.
        """
        from perceptrank.evaluation.plots import draw_means

        chosen = parse_all(measures) if measures is not None else self.measures
        if not chosen:
            raise ValueError("there is nothing to plot: no measure was recorded, as there were no grades")
        if window is None:
            curves = {str(measure): self.running_mean(measure) for measure in chosen}
            label = "running mean, before learning from each query"
        else:
            curves = {str(measure): self.window_mean(measure, window) for measure in chosen}
            label = f"mean of {window:,} queries, before learning from each"
        marks = [(change.alarm + 1, change.since + 1) for change in changes]
        draw_means(path, curves, label, log_x=window is None, marks=marks)

    @classmethod
    def concatenate(cls, traces: Iterable[Trace]) -> Trace:
        """Concatenate traces of consecutive rounds."""
        parts = list(traces)
        if not parts:
            raise ValueError("concatenate needs at least one trace, got none")
        if any(part.measures != parts[0].measures for part in parts):
            raise ValueError("traces must record the same measures")
        values = {measure: np.concatenate([part._values[measure] for part in parts]) for measure in parts[0]._values}
        weights = None
        if any(part.query_weights is not None for part in parts):
            weights = np.concatenate(
                [np.ones(len(part)) if part.query_weights is None else part.query_weights for part in parts]
            )
        return cls(values, np.concatenate([part.masses for part in parts]), weights)


def running_means(values: Floats, weights: Floats | None = None) -> Floats:
    """Return the means over the rounds so far, along the last axis, of what is neither NaN nor of weight 0."""
    if weights is not None:
        wholes = np.cumsum(np.where(np.isnan(values), 0.0, weights), axis=-1)
        weighted = np.cumsum(weights * np.nan_to_num(values), axis=-1)
        means: Floats = weighted / np.where(wholes > 0, wholes, np.nan)
        return means
    counts = np.cumsum(~np.isnan(values), axis=-1)
    sums = np.cumsum(np.nan_to_num(values), axis=-1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _read_arrays(path: str | os.PathLike[str], file: IO[bytes], max_bytes: int) -> dict[str, Floats]:
    """Read the float64 vectors of an .npz file, whose entries tell their sizes before they are decompressed."""
    from perceptrank.io.npy_file import read_vector

    with zipfile.ZipFile(file) as archive:
        match = _COMMENT.fullmatch(archive.comment)
        if match and int(match[1]) > _VERSION:
            about = {"version": int(match[1]), "written_by": match[2].decode()}
            raise FileFormatError(path, f" {too_new(about, _VERSION)}")
        entries = archive.infolist()
        n_bytes = sum(entry.file_size for entry in entries)
        if n_bytes > max_bytes:
            problem = f" takes {n_bytes} bytes in memory, more than the limit of {max_bytes}; if you trust it, "
            raise FileFormatError(path, f"{problem}`max_bytes={n_bytes}` reads it")
        arrays = {}
        for entry in entries:
            if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError("it is encrypted, or compressed in another way than traces are")
            with archive.open(entry) as packed:
                arrays[entry.filename.removesuffix(".npy")] = read_vector(packed, entry.file_size)
                packed.read(1)  # at its end, the checksum is compared
        return arrays
