"""The report as files in a folder."""

import csv
import io
import json
from pathlib import Path

from perceptrank.experiments.reproduction import Reproduction, as_plain
from perceptrank.persist import write_atomically
from perceptrank.plots import Chart, check_drawable, draw
from perceptrank.report.page import make_page


def check_folder(folder: Path) -> None:
    """Raise, before anything is run, if the report could not be written."""
    check_drawable("figure.svg")
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"--out must be a folder, got the file {folder}")
    for one in (folder, folder / "figures", folder / "curves"):
        one.mkdir(parents=True, exist_ok=True)


def write_report(result: Reproduction, folder: Path, version: str) -> Path:
    """Write page, numbers, figures and curves; returns the page."""
    check_folder(folder)
    for chart in result.charts:
        for kind in ("svg", "png"):
            draw(chart, folder / "figures" / f"{chart.name}.{kind}")
        write_atomically(folder / "curves" / f"{chart.name}.csv", _curves(chart))
    plain = as_plain(result) | {"perceptrank": version}
    write_atomically(folder / "results.json", json.dumps(plain, indent=1, allow_nan=False, ensure_ascii=False) + "\n")
    page = folder / "report.html"
    write_atomically(page, make_page(result, version))
    return page


def _curves(chart: Chart) -> str:
    """A row per point: the curve's name, x, y, and the band around it, empty where there is none."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["series", "x", "y", "low", "high"])
    for one in chart.series:
        for place in range(len(one.x)):
            band = ["" if edge is None else repr(float(edge[place])) for edge in (one.low, one.high)]
            rows.writerow([one.name, repr(float(one.x[place])), repr(float(one.y[place])), *band])
    return text.getvalue()
