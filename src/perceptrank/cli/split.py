"""The command `split`."""

import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import perceptrank as pr
from perceptrank.cli.convert import Writing, write
from perceptrank.cli.options.files import What, Writes
from perceptrank.cli.options.reading import ClickReading
from perceptrank.cli.options.shared import AsJson, Overwrite
from perceptrank.cli.terminal.tables import ProgressBar, show

if TYPE_CHECKING:
    from perceptrank.io.tables.delimited import DelimitedTable

By = StrEnum("By", "query time")


def split(
    *,
    out: Annotated[list[str], typer.Option(help="File or store for one part; give two or more."), Writes(What.data)],
    fraction: Annotated[list[float], typer.Option(help="Share of queries in each part; the last part gets the rest.")],
    by: Annotated[
        By, typer.Option(help="At random by query, or by time, earliest first; a user_query is never split.")
    ] = By.query,
    stratify: Annotated[
        bool, typer.Option("--stratify", help="Mix the queries' best grades alike in all parts.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random split.")] = 0,
    overwrite: Overwrite = False,
    reading: ClickReading,
    as_json: AsJson = False,
) -> None:
    """Split queries into parts, such as one to learn from and one to evaluate on.

    CSV split into CSV, and TSV into TSV, keeps all columns.

    Example: perceptrank split judgements.csv --out train.csv --out test.csv --fraction 0.7 --seed 1
    """
    start = time.perf_counter()
    shares = _shares(out, fraction)
    if by is By.time and stratify:
        raise ValueError("--stratify applies to --by query: parts of time are consecutive")
    reading.check_rereadable("split")
    if taken := [path for path in out if Path(path).exists() and not overwrite]:
        raise FileExistsError(f"{taken[0]} exists already; --overwrite replaces it")
    table = _table_to_copy(reading, out, by)
    with ProgressBar("looking at queries") as bar:
        facts = _of_blocks(reading.blocks(bar), stratify) if table is None else _of_table(table, stratify)
        parts = _assign(facts, shares, by, seed, stratify=stratify)
    if table is not None:
        from perceptrank.io.tables.copying import copy_rows

        documents = copy_rows(table, parts, out)
    else:
        documents = [_write_part(number, path, parts, reading, overwrite) for number, path in enumerate(out)]
    numbers = list(parts.values())
    rows = [
        {"part": path, "queries": numbers.count(number), "documents": documents[number]}
        for number, path in enumerate(out)
    ]
    seconds = round(time.perf_counter() - start, 3)
    show(rows, title=f"{len(parts):,} queries", as_json=as_json, extra={"seconds": seconds})


def _shares(out: list[str], fractions: list[float]) -> list[float]:
    if len(out) < 2 or len({realpath(path) for path in out}) < len(out):
        raise ValueError(f"`out` must name two files or more, and different ones, got {', '.join(out)}")
    shares = [*fractions, 1 - sum(fractions)] if len(fractions) == len(out) - 1 else fractions
    if len(shares) != len(out) or not min(shares) > 0 or not abs(sum(shares) - 1) < 1e-9:
        given = " ".join(f"{fraction:g}" for fraction in fractions)
        rule = f"must be above 0, below 1 in all, and given for each of {len(out)} parts but the last"
        raise ValueError(f"`fraction` {rule}, got {given}")
    return shares


def _table_to_copy(reading: ClickReading, out: list[str], by: By) -> "DelimitedTable | None":
    """Open the table whose rows can be copied as they are; None if there is another kind of file to read or write."""
    from perceptrank.io.sources import table_format_of_name
    from perceptrank.io.tables.delimited import DelimitedTable
    from perceptrank.io.tables.reader import as_wanted

    kinds = {table_format_of_name(path) for path in (*reading.files, *out)}
    if len(reading.files) > 1 or reading.feature_paths or reading.from_clicks or kinds not in ({"csv"}, {"tsv"}):
        return None
    roles: dict[str, Any] = {role: name for role, name in reading.column_names().items() if role != "features"}
    wanted = as_wanted(roles)
    timed = wanted.roles | ({"time": "time"} if by is By.time else {})
    return DelimitedTable(reading.files[0], kinds.pop() or "csv", wanted._replace(roles=timed, with_features=False))


def _of_blocks(blocks: "Iterator[pr.QueryStream]", stratify: bool) -> Iterator[tuple[Any, str, Any, float]]:
    """Yield the id of each query, its group, its time if known, and its best grade if that is needed."""
    import numpy as np

    from perceptrank.stream.splitting import group_names

    for block in blocks:
        nothing = [None] * len(block)
        grades = np.maximum.reduceat(block.relevance, block.offsets[:-1]) if stratify else nothing
        yield from zip(block.qids.tolist(), group_names(block), block.columns.get("time", nothing), grades, strict=True)


def _of_table(table: "DelimitedTable", stratify: bool) -> Iterator[tuple[Any, str, Any, float]]:
    """Yield the same of each row of a table."""
    from perceptrank.io.tables.reader import are_blank
    from perceptrank.io.tables.rows import convert_column
    from perceptrank.stream.columns import find_column

    roles = table.columns.roles
    if stratify and "relevance" not in roles:
        raise ValueError(f"--stratify needs grades: {table.path} has none")
    for rows in (each.take(~are_blank(each)) for each in table.rows()):
        nothing = [None] * len(rows)
        qids = rows.qids.tolist()
        if None in qids:
            raise rows.error(qids.index(None), roles["qid"], f"a row must name its query (column {roles['qid']!r})")
        asked = [text or qid for text, qid in zip(rows.columns.get("user_query", qids), qids, strict=True)]
        times = convert_column(rows, find_column("time"), roles["time"]) if "time" in roles else nothing
        yield from zip(qids, asked, times, rows.columns["relevance"] if stratify else nothing, strict=True)


def _assign(
    facts: Iterator[tuple[Any, str, Any, Any]], shares: list[float], by: By, seed: int, *, stratify: bool
) -> dict[Any, int]:
    import numpy as np

    from perceptrank.stream.splitting import assign_parts

    queries: dict[Any, list[Any]] = {}
    for qid, group, known, grade in facts:
        query = queries.setdefault(qid, [group, known, grade])
        query[2] = max(query[2], grade) if stratify else None
    if not queries:
        raise ValueError("there are no queries to split")
    groups, moments, best = zip(*queries.values(), strict=True)
    times = np.array(moments, "datetime64[ms]") if by is By.time else None
    if times is not None and (n_unknown := int(np.isnat(times).sum())):
        raise ValueError(f"--by time needs the column 'time': {n_unknown:,} of {len(times):,} queries have none")
    parts = assign_parts(groups, shares, seed=seed, times=times, labels=best if stratify else None)
    return dict(zip(queries, parts.tolist(), strict=True))


def _write_part(number: int, path: str, parts: dict[Any, int], reading: ClickReading, overwrite: bool) -> int:
    """Read the files once more, and write the queries of a part; return how many documents these have."""
    n_documents = 0

    def is_here(block: "pr.QueryStream") -> list[bool]:
        nonlocal n_documents
        here = [parts[qid] == number for qid in block.qids.tolist()]
        n_documents += int((block.offsets[1:] - block.offsets[:-1])[here].sum())
        return here

    with ProgressBar(f"writing {path}") as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said when the queries were looked at
        write(replace(reading, quiet=True).blocks(bar, only=is_here), Writing(path, overwrite=overwrite))
    return n_documents
