"""Write the report to a folder."""

import csv
import io
import json
import re
import tempfile
from pathlib import Path

from perceptrank.evaluation.plots import Chart, check_drawable, draw
from perceptrank.io.atomic import check_writable, write_atomically
from perceptrank.paper.report.page import make_page
from perceptrank.paper.reproduction import Reproduction
from perceptrank.paper.results import as_plain

_PAGE, _NUMBERS = "report.html", "results.json"


def check_folder(folder: Path) -> None:
    """Create the folder; raise `OSError` if the report cannot be written there."""
    check_drawable("figure.svg")
    for one in (folder, folder / "figures", folder / "curves"):
        if one.exists() and not one.is_dir():
            raise NotADirectoryError(f"--out must be a folder, got the file {one}")
        one.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=one):
            pass
    for name in (_PAGE, _NUMBERS):
        check_writable(folder / name)


def write_report(result: Reproduction, folder: Path, version: str) -> Path:
    """Write page, numbers, figures and curves, remove those of an earlier report, and return the path of the page."""
    check_folder(folder)
    earlier = _earlier_figures(folder)
    for chart in result.charts:
        for path in _files(folder, chart.name)[:2]:
            draw(chart, path)
        write_atomically(_files(folder, chart.name)[2], _curves(chart))
    plain = as_plain(result) | {"perceptrank": version}
    write_atomically(folder / _NUMBERS, json.dumps(plain, indent=1, allow_nan=False, ensure_ascii=False) + "\n")
    page = folder / _PAGE
    write_atomically(page, make_page(result, version))
    for name in earlier - {chart.name for chart in result.charts}:
        for path in _files(folder, name):
            path.unlink(missing_ok=True)
    return page


def _files(folder: Path, name: str) -> list[Path]:
    figures = folder / "figures"
    return [figures / f"{name}.svg", figures / f"{name}.png", folder / "curves" / f"{name}.csv"]


def _earlier_figures(folder: Path) -> set[str]:
    """Return the names of the figures of an earlier report in the folder."""
    try:
        figures = json.loads((folder / _NUMBERS).read_bytes())["figures"]
        return {name for one in figures if re.fullmatch(r"[a-z0-9-]+", name := str(one["name"]))}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def _curves(chart: Chart) -> str:
    """Format a chart as CSV, one row per point; the band is empty where there is none."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["series", "x", "y", "low", "high"])
    for one in chart.series:
        for k in range(len(one.x)):
            band = ["" if edge is None else repr(float(edge[k])) for edge in (one.low, one.high)]
            rows.writerow([one.name, repr(float(one.x[k])), repr(float(one.y[k])), *band])
    return text.getvalue()
