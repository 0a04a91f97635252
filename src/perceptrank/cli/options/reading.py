"""Files, or standard input, as blocks of judged queries."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import perceptrank as pr
from perceptrank.cli.options.shared import ClickLogs, Dialect, Files, Qid
from perceptrank.cli.terminal.streams import complain, standard_input

if TYPE_CHECKING:
    from perceptrank.stream.blocks import Blocks

_LOG_SETTINGS = ("kind", "click", "impressions", "max_session_clicks", "since")
_ROLES = ("qid", "docid", "relevance", "weight", "feature")


@dataclass(frozen=True, kw_only=True)
class Reading(Dialect):
    """Files to read and their options; `whole` groups documents of a query that are not adjacent.

    Documents of tables and Parquet files need no grades if they are not `judged`.
    `quiet` is for reading once more: columns and what is left out are not reported again.
    """

    files: Files
    comments: bool = False
    whole: bool = False
    judged: bool = True
    quiet: bool = False

    def blocks(
        self,
        bar: Callable[[int, int], object],
        *,
        every: int | None = None,
        names: tuple[str, ...] | None = None,
        only: Callable[["pr.QueryStream"], Any] | None = None,
    ) -> Iterator["pr.QueryStream"]:
        """Yield the queries block by block, and tell the bar how far it is.

        With `every`, blocks end wherever so many queries, or a multiple of that, are complete. With `names`, features
        are those of these names, in this order; other features are skipped, with a warning. `only` tells which queries
        of a block are wanted.
        """
        from perceptrank.io.sources import adapt_block

        stream = self.opened(bar, names)
        # Readers tell the bar themselves how far they are; what is open or in memory is counted here.
        parts = [stream] if isinstance(stream, pr.QueryStream) else stream if isinstance(stream, list) else []
        n_documents = sum(part.n_documents for part in parts)
        queries = documents = 0
        for whole in _blocks_of(stream):
            if names and documents == 0 and not self.quiet:
                _say_what_is_left_out(whole.feature_names, names)
            documents += whole.n_documents
            if n_documents:
                bar(documents, n_documents)
            block = adapt_block(whole if only is None else whole[only(whole)], names, self.sparse)
            for start, stop in _cuts(queries, len(block), every):
                yield block if stop - start == len(block) else block[start:stop]
            queries += len(block)

    def opened(self, bar: Callable[[int, int], object], names: tuple[str, ...] | None = None) -> "Blocks":
        """Open the files: a store as it is, others as blocks."""
        from perceptrank.io.sources import open_sources

        return open_sources(
            [standard_input() if file == "-" else file for file in self.files],
            whole=self.whole,
            comments=self.comments,
            progress=bar,
            report=self.report,
            names=names,
            judged=self.judged,
            **self.options(),
        )

    def check_rereadable(self, option: str) -> None:
        """Raise if the files can be read only once."""
        from perceptrank.io.paths import is_address

        if once := [file for file in self.files if file == "-" or is_address(file)]:
            source = "standard input" if once[0] == "-" else once[0]
            raise ValueError(f"{option} reads the queries twice, which {source} does not allow: write a file first")

    def report(self, report: object) -> None:
        """Print what was left out, once."""
        if not self.quiet:
            complain(str(report))

    def options(self) -> dict[str, Any]:
        """Return what `open_sources` takes beside the files."""
        if self.missing and self.zero_missing:
            raise ValueError("give --keep-missing or --zero-missing, not both")
        given = {
            "n_features": self.n_features,
            "zero_based": self.zero_based or None,
            "qid": None if self.qid is Qid.auto else self.qid.value,
            "clip": self.clip,
            "dtype": "float64" if self.dtype else None,
            "on_error": "skip" if self.on_error else None,
            "n_threads": self.n_threads,
        }
        return {name: value for name, value in given.items() if value is not None} | {
            "columns": self.column_names(),
            "missing": "keep" if self.missing else "zero" if self.zero_missing else "error",
            "sparse": self.sparse,
            "feature_paths": list(self.feature_paths or ()),
        }

    def column_names(self) -> dict[str, Any]:
        """Names of columns of tables and Parquet files; several features make a list."""
        named: dict[str, Any] = {}
        for pair in self.column or []:
            role, name = _name_and_value(pair, _ROLES, "a column", "NAME")
            if role == "feature":
                named.setdefault("features", []).append(name)
            elif named.setdefault(role, name) != name:
                raise ValueError(f"the column of {role} is given twice, {named[role]!r} and {name!r}")
        return named


@dataclass(frozen=True, kw_only=True)
class ClickReading(Reading, ClickLogs):
    """Files to read that may be logs of clicks."""

    def of_impressions(self) -> "ClickReading":
        """Take the files for logs of clicks, unless they are stores or Parquet files that have places and clicks."""
        from perceptrank.io.sources import holds_impressions

        return self if self.from_clicks or all(map(holds_impressions, self.files)) else replace(self, from_clicks=True)

    def opened(self, bar: Callable[[int, int], object], names: tuple[str, ...] | None = None) -> "Blocks":
        """Open logs of clicks, which tables with places and clicks but no grades are, or files as others do."""
        from perceptrank.io.sources import holds_clicks

        if not self.from_clicks:
            if "relevance" not in self.column_names() and all(map(holds_clicks, self.files)):
                return replace(self, from_clicks=True).opened(bar, names)
            return super().opened(bar, names)
        files = self.files[0] if len(self.files) == 1 else self.files  # an address is no list
        queries = self.queries[0] if self.queries and len(self.queries) == 1 else self.queries
        read = pr.read_clicks if self.whole else pr.scan_clicks
        return read(files, queries, progress=bar, report=self.report, **self.options())

    def options(self) -> dict[str, Any]:
        """Return what `scan_clicks` takes beside the files of logs, or `open_sources` beside others."""
        options = super().options()
        if not self.from_clicks:
            for flag, value in (("--queries", self.queries), ("--first-place", self.first_place), ("--log", self.log)):
                if value is not None:
                    raise ValueError(f"{flag} applies to logs of clicks only: give --clicks")
            return options
        columns = options.pop("columns")
        taken = {name: options.pop(name) for name in ("missing", "dtype", "feature_paths") if name in options}
        wrong = [*(options.keys() - {"sparse", "n_threads"}), *(columns.keys() - {"qid", "docid", "features"})]
        if wrong:
            raise ValueError(f"`{min(wrong)}` does not apply to logs of clicks")
        taken["feature_paths"] = taken["feature_paths"] or None
        return {"first_place": self.first_place, **taken, **columns, **self._log_settings()}

    def _log_settings(self) -> dict[str, Any]:
        """Return the settings of --log; several clicks make a list."""
        settings: dict[str, Any] = {}
        for pair in self.log or []:
            name, value = _name_and_value(pair, _LOG_SETTINGS, "--log")
            if name == "click":
                settings.setdefault("clicks", []).append(value)
            elif name == "max_session_clicks":
                if value != "none" and not value.isdecimal():
                    raise ValueError(f"max_session_clicks must be a whole number, or none, got {value!r}")
                settings[name] = None if value == "none" else int(value)
            else:
                settings[name] = value
        return settings


def _name_and_value(pair: str, names: tuple[str, ...], what: str, placeholder: str = "") -> tuple[str, str]:
    name, _, value = pair.partition("=")
    if not value or name not in names:
        known = ", ".join(f"{each}={placeholder}" for each in names)
        raise ValueError(f"{what} must be one of {known}, got {pair!r}")
    return name, value


def _say_what_is_left_out(features: tuple[str, ...] | None, names: tuple[str, ...]) -> None:
    others = [name for name in features or () if name not in set(names)]
    if others and set(names) <= set(features or ()):
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        complain(f"features unknown to the model are ignored: {', '.join(others[:5])}{more}")


def needed_names(*models: Any) -> tuple[str, ...] | None:
    """Return the names of all features that models need; None if one takes any."""
    needed = [learner.model.needed_names for learner in models if learner is not None]
    if any(names is None for names in needed):
        return None
    return tuple(dict.fromkeys(name for names in needed for name in names))


def _blocks_of(stream: "Blocks") -> Iterator["pr.QueryStream"]:
    """Yield what a scan yields, which are blocks already, and whole streams in blocks."""
    from perceptrank.stream.blocks import Scan, as_blocks

    for part in as_blocks(stream):
        yield from [part] if isinstance(stream, Scan) else part.blocks()


def _cuts(before: int, length: int, every: int | None) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the parts of a block that comes after so many queries.

    Examples
    --------
    >>> list(_cuts(10, 6, None)), list(_cuts(10, 6, 4))
    ([(0, 6)], [(0, 2), (2, 6)])
    """
    start = 0
    while start < length:
        stop = length if every is None else min(length, start + every - (before + start) % every)
        yield start, stop
        start = stop
