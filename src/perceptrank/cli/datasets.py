"""The command `datasets`."""

from pathlib import Path
from typing import Annotated, Any

import typer

import perceptrank as pr
from perceptrank.cli.options.shared import AsJson
from perceptrank.cli.terminal.streams import complain, say
from perceptrank.cli.terminal.tables import print_json, print_rows


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
    here = {name: _files(data_set, data) for name, data_set in known.items()}
    if as_json:
        print_json([_describe(data_set, here[name]) for name, data_set in known.items()])
        return
    rows = [
        {
            "name": name,
            "queries": "?" if data_set.queries is None else data_set.queries,
            "documents": "?" if data_set.documents is None else data_set.documents,
            "features": data_set.n_features,
            "folds": data_set.n_folds or "-",
            "grades": data_set.grades,
            "here": _summary(data_set, here[name]),
        }
        for name, data_set in known.items()
    ]
    print_rows(rows, f"Public data sets, and which are in {data}")
    missing = [data_set for name, data_set in known.items() if not here[name]]
    if missing:
        print("\nNot here. Unpack the archives so that these files exist, or say --data:")
    for data_set in missing:
        place = data / data_set.folders[0] / next(iter(data_set.files.values())).format(fold=1)
        say(f"  {data_set.name}  {place}")
        print(f"      {data_set.home} ({data_set.terms})")


def _files(data_set: "pr.DataSet", root: Path) -> dict[str, list[int]]:
    """List the folds in which each split is here."""
    folds, splits = data_set.folds, data_set.splits
    here = {split: [fold for fold in folds if data_set.find(root, split, fold)] for split in splits}
    return {split: folds for split, folds in here.items() if folds}


def _summary(data_set: "pr.DataSet", here: dict[str, list[int]]) -> str:
    if not here:
        return "-"
    if here == dict.fromkeys(data_set.splits, data_set.folds):
        return "all"
    if not data_set.n_folds:
        return ", ".join(here)
    shown = {split: f"fold {', '.join(map(str, folds))}" for split, folds in here.items()}
    if len(here) == len(data_set.splits) and len(set(shown.values())) == 1:
        return next(iter(shown.values()))
    return "; ".join(f"{split} of {folds}" for split, folds in shown.items())


def _describe(data_set: "pr.DataSet", here: dict[str, list[int]]) -> dict[str, Any]:
    return {
        "name": data_set.name,
        "title": data_set.title,
        "queries": data_set.queries,
        "documents": data_set.documents,
        "features": data_set.n_features,
        "grades": data_set.grades,
        "folds": data_set.n_folds,
        "files": dict(data_set.files),
        "folders": list(data_set.folders),
        "home": data_set.home,
        "terms": data_set.terms,
        "here": here,
    }
