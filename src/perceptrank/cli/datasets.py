"""The command `datasets`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import perceptrank as pr
from perceptrank.cli.options.shared import AsJson
from perceptrank.cli.terminal.streams import complain
from perceptrank.cli.terminal.tables import as_text, console, print_json
from perceptrank.io.names import printable

if TYPE_CHECKING:
    from perceptrank.datasets.catalogue import DataSet


def datasets(
    data: Annotated[
        Path, typer.Option(envvar="PERCEPTRANK_DATA", help="Folder of the data sets.", show_default=True)
    ] = Path("data"),
    as_json: AsJson = False,
) -> None:
    """List the public data sets: which are installed, and where to get the others.

    Example: perceptrank datasets --data ~/data
    """
    if not data.is_dir():
        complain(f"there is no folder {data}; --data names the one that data sets are kept in")
    known = pr.datasets()
    found = {name: _files(one, data) for name, one in known.items()}
    if as_json:
        print_json([_described(one, found[name]) for name, one in known.items()])
        return
    _print_table(known, found, data)


def _print_table(known: "Mapping[str, DataSet]", found: dict[str, dict[str, list[int]]], root: Path) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=f"Public data sets, and which are in {printable(str(root))}", title_justify="left", box=SIMPLE_HEAD
    )
    table.add_column("name", no_wrap=True)
    for heading in ("queries", "documents", "features", "folds"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("grades")
    table.add_column("here")
    for name, one in known.items():
        table.add_row(
            name,
            _count(one.queries),
            _count(one.documents),
            str(one.n_features),
            str(one.n_folds or "-"),
            one.grades,
            _summary(one, found[name]),
        )
    out = console()
    out.print(table)
    missing = [one for name, one in known.items() if not found[name]]
    if missing:
        out.print("\nNot here. Unpack the archives so that these files exist, or say --data:")
    for one in missing:
        place = printable(str(root / one.folders[0] / next(iter(one.files.values())).format(fold=1)))
        out.print(Text.assemble("  ", (one.name, "bold"), f"  {place}"), soft_wrap=True, highlight=False)
        out.print(f"      {one.home} ({one.terms})", soft_wrap=True, highlight=False)


def _files(one: "DataSet", root: Path) -> dict[str, list[int]]:
    """List the folds in which each split is here."""
    here = {split: [fold for fold in one.folds if one.find(root, split, fold)] for split in one.splits}
    return {split: folds for split, folds in here.items() if folds}


def _summary(one: "DataSet", found: dict[str, list[int]]) -> str:
    if not found:
        return "-"
    if found == dict.fromkeys(one.splits, one.folds):
        return "all"
    if not one.n_folds:
        return ", ".join(found)
    if len(found) == len(one.splits) and len({tuple(folds) for folds in found.values()}) == 1:
        return _folds(next(iter(found.values())))
    return "; ".join(f"{split} of {_folds(folds)}" for split, folds in found.items())


def _folds(folds: list[int]) -> str:
    return f"fold {', '.join(map(str, folds))}"


def _count(value: int | None) -> str:
    return "?" if value is None else as_text(value)


def _described(one: "DataSet", found: dict[str, list[int]]) -> dict[str, Any]:
    return {
        "name": one.name,
        "title": one.title,
        "queries": one.queries,
        "documents": one.documents,
        "features": one.n_features,
        "grades": one.grades,
        "folds": one.n_folds,
        "files": dict(one.files),
        "folders": list(one.folders),
        "home": one.home,
        "terms": one.terms,
        "here": found,
    }
