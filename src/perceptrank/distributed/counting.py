"""Count clicks shard by shard and add up the counts, for the judgements and the position bias of the whole log."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from perceptrank.clicks.bias.result import PositionBias
from perceptrank.clicks.bias.sums import Method, PositionBiasSums
from perceptrank.clicks.judging import judging
from perceptrank.clicks.judging.judgements import Judgements
from perceptrank.clicks.judging.judging import THRESHOLDS, ClickModel
from perceptrank.clicks.judging.sums import JudgementSums
from perceptrank.distributed.executors import marks_of
from perceptrank.distributed.learning import engine_for, shards_of, warn_of_shared
from perceptrank.distributed.shards import FileShard, Shard, deal, files_of, paths_of, size_of
from perceptrank.io.logs.reader import scan_clicks
from perceptrank.io.logs.report import ClickReport, NoImpressionsError
from perceptrank.io.sources import holds_impressions
from perceptrank.kernels.arrays import Words
from perceptrank.stream.blocks import Scan, as_blocks
from perceptrank.stream.validation import check_confidence, check_positive_whole

_ADVICE = (
    "what each file has of them is counted as an impression of its own. Fewer `shards` read neighbouring files as one "
    "log"
)


@dataclass(frozen=True)
class LogShard(FileShard):
    """Logs of clicks, and the files of their queries, which the worker reads as one log."""

    queries: tuple[str, ...] = ()

    def blocks(self, report: Callable[[ClickReport], object] | None = None) -> Scan:
        """Open the log."""
        return scan_clicks(list(self.paths), list(self.queries) or None, report=report, **dict(self.options))


class Counted(NamedTuple):
    """Sums of a shard; of logs also marks of the impressions, and what was left out."""

    sums: tuple[Any, ...]
    impressions: Words
    reports: list[ClickReport]


@dataclass(frozen=True)
class Counting:
    """The work: add the impressions of a shard to empty sums."""

    of: ClassVar[str] = "shard"

    empty: tuple[Any, ...]

    def run(self, shard: Shard) -> Counted:
        """Count a shard."""
        sums, marks = deepcopy(self.empty), [np.empty(0, np.uint64)]
        reports: list[ClickReport] = []
        is_log = isinstance(shard, LogShard)
        try:
            for block in as_blocks(shard.blocks(reports.append) if isinstance(shard, LogShard) else shard.blocks()):
                for each in sums:
                    each.add(block)
                if is_log:
                    marks.append(marks_of(block))
        except NoImpressionsError as error:  # other shards may have some
            reports.append(error.report)
        for each in sums:
            each.compact()
        return Counted(sums, np.unique(np.concatenate(marks)), reports)


def judgements(
    parts: Any,
    client: Any = None,
    model: ClickModel = "position",
    bias: PositionBias | npt.ArrayLike | None = None,
    *,
    prior: tuple[float, float] | None = None,
    thresholds: Sequence[float] = THRESHOLDS,
    confidence: float = 0.95,
    **counting: Any,
) -> Judgements:
    """Judge documents by the clicks of a log in several parts, as `perceptrank.clicks.judgements` judges the whole.

    Each shard is reduced to its sums where it is read, and this process adds them up, in the order of the shards. The
    result is that of one process that reads the shards one after the other: to the bit if clicks are 0 or 1 and pairs
    are swapped with probability ½, else up to the rounding of sums.

    Logs of events are joined within a shard. An impression that is in two shards counts as two, with a warning; shards
    whose positions count from different places are an error; `max_session_clicks` counts the clicks that a session has
    in one shard.

    Parameters
    ----------
    parts : files, streams, a Dask collection or a Spark DataFrame
        Logs of clicks, as `perceptrank.scan_clicks` reads them, each a shard; or whatever
        `perceptrank.distributed.learn` takes, with the columns ``place``, ``clicked`` and ``docid``.
    client : distributed.Client, pyspark.sql.SparkSession, Executor, or None
        Where to count. None is this process, or the session of a Spark DataFrame.
    model, bias, prior, thresholds, confidence
        See `perceptrank.clicks.judgements`. The position bias is estimated from the same log by default.
    **counting
        `queries`: files with the queries of logs, one for each file of events. `report`: called with a `ClickReport` of
        all logs instead of a warning. `progress`: called with the number of shards that are done, and of all, then with
        those of documents that are judged. `shards`, `assume_grouped`, `timeout`: see `perceptrank.distributed.learn`.
        Others are options of `perceptrank.scan_clicks`, or those that `learn` has for files that are no logs.

    Raises
    ------
    ValueError, ShardError or ClusterError
        If shards are of different kinds, nothing was shown, a shard fails, or the cluster has no workers.

    Examples
    --------
    >>> import perceptrank as pr
    >>> shop, user = pr.mslr_shaped(20, n_documents=5, n_features=3), pr.clicks.user("navigational")
    >>> log = pr.simulate_clicks(shop, user, policy="fair-pairs", impressions=500)
    >>> judged = judgements([log[:200], log[200:]])
    >>> judged.low.tolist() == pr.clicks.judgements(log).low.tolist()
    True
    """
    judging.check_settings(model, thresholds, confidence, has_bias=bias is not None)
    empty = [JudgementSums(), *([PositionBiasSums()] if model == "position" and bias is None else [])]
    sums = count_clicks(parts, client, empty, **counting)
    known = sums[1].estimate() if len(sums) > 1 else bias
    settings: dict[str, Any] = {"prior": prior, "thresholds": thresholds, "confidence": confidence}
    return judging.judgements(sums[0], model, known, **settings, progress=counting.get("progress"))


def position_bias(
    parts: Any,
    client: Any = None,
    method: Method = "auto",
    *,
    places: int | None = None,
    confidence: float = 0.95,
    **counting: Any,
) -> PositionBias:
    """Estimate position bias from a log in several parts, as `perceptrank.clicks.position_bias` does from the whole.

    The result is that of one process under the same conditions as for `judgements`.

    Parameters
    ----------
    parts, client, **counting
        See `judgements`.
    method, places, confidence
        See `perceptrank.clicks.position_bias`. The sums of "swaps" are a few numbers per place; those of other methods
        grow with the documents.

    Examples
    --------
    >>> import perceptrank as pr
    >>> shop, user = pr.mslr_shaped(20, n_documents=5, n_features=3), pr.clicks.user("navigational")
    >>> log = pr.simulate_clicks(shop, user, policy="fair-pairs", impressions=500)
    >>> str(position_bias([log[:200], log[200:]])) == str(pr.clicks.position_bias(log))
    True
    """
    check_confidence(confidence)
    (sums,) = count_clicks(parts, client, [PositionBiasSums(method, places)], **counting)
    bias: PositionBias = sums.estimate(confidence)
    return bias


def count_clicks(
    parts: Any,
    client: Any,
    empty: Sequence[Any],
    *,
    queries: Any = None,
    shards: int | None = None,
    assume_grouped: bool = False,
    timeout: float | None = None,
    report: Callable[[ClickReport], object] | None = None,
    progress: Callable[[int, int], object] | None = None,
    **options: Any,
) -> list[Any]:
    """Return what empty sums become with the impressions of all shards, in the order of the shards."""
    executor = engine_for(parts, client, timeout)
    all_shards = _log_shards(parts, queries, shards, options) or shards_of(parts, shards, assume_grouped, options)
    totals = deepcopy(list(empty))
    waiting: dict[int, Counted] = {}
    marks: list[Words] = []
    whole: ClickReport | None = None
    for n_done, (number, outcome) in enumerate(executor.map(Counting(tuple(empty)), all_shards), 1):
        waiting[number] = outcome
        while len(marks) in waiting:
            sums, own, reports = waiting.pop(len(marks))
            for place, part in enumerate(sums):
                totals[place] += part
            for of_shard in reports:
                try:
                    whole = of_shard if whole is None else whole + of_shard
                except ValueError as error:
                    raise ValueError(f"{all_shards[len(marks)].name}, beside the shards before: {error}") from None
            marks.append(own)
        if progress is not None:
            progress(n_done, len(all_shards))
    if whole is not None and not whole.impressions:
        names = ", ".join(shard.name for shard in all_shards)
        raise ValueError(f"there are no impressions in {names}: {'; '.join(whole.problems()) or 'they have no rows'}")
    warn_of_shared(all_shards, marks, "impressions", _ADVICE)
    if whole is not None and report is not None:
        report(whole)
    elif whole is not None and whole.needs_a_look:
        warnings.warn(str(whole), UserWarning, stacklevel=3)
    return totals


def _log_shards(parts: Any, queries: Any, shards: int | None, options: dict[str, Any]) -> list[LogShard]:
    """Return the shards of logs; none if parts are anything else."""
    files = files_of(paths_of(parts))
    others = [file for file in files if holds_impressions(file)]
    if not files or len(others) == len(files):
        if queries is not None:
            raise TypeError("queries can be given with logs of clicks only: these parts have their impressions")
        return []
    if others:
        log = next(file for file in files if file not in others)
        raise ValueError(f"files must be of one kind: {log} is a log, {others[0]} has impressions as rows")
    asked = [] if queries is None else files_of([queries] if isinstance(queries, (str, os.PathLike)) else queries)
    if asked and len(asked) != len(files):
        raise ValueError(f"queries must be one file for each of {len(files)} logs, in their order, got {len(asked)}")
    n = len(files) if shards is None else check_positive_whole("shards", shards)
    if n > len(files):
        raise ValueError(f"shards must be at most {len(files)}, as logs are not split, got {n}: convert makes a store")
    chosen = tuple(sorted(options.items()))
    made = [
        LogShard(tuple(files[first:last]), chosen, tuple(asked[first:last]))
        for first, last in deal([size_of(file) for file in files], n)
    ]
    with suppress(NoImpressionsError):
        made[0].blocks()  # which checks the options
    return made
