"""Draw the figures of the pages on learners: `python docs/learners/figures/draw.py [FOLDER]`, in some seconds."""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt

sys.path.insert(0, str(Path(__file__).parent))
import lists
import plots
import streams
import updates

# The same bytes whenever it is run, and text that is text.
mpl.rcParams.update({"svg.hashsalt": "perceptrank", "svg.fonttype": "none", "font.size": 9})
mpl.rcParams.update(
    {"font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.monospace": ["DejaVu Sans Mono"]}
)


FIGURES = [*updates.UPDATES, *lists.LISTS, *streams.STREAMS]


def compute(name: str) -> dict[str, Any]:
    """The numbers of a figure, as they are in its file: to nine decimals, since processors differ in later ones."""
    if name in updates.UPDATES:
        data = updates.compute(name)
    else:
        data = lists.compute(name) if name in lists.LISTS else streams.STREAMS[name]()
    rounded: dict[str, Any] = json.loads(json.dumps(data), parse_float=lambda text: round(float(text), 9) + 0.0)
    return rounded


def draw(name: str, data: dict[str, Any], folder: Path) -> None:
    """Draw a figure from its numbers, which become part of the file."""
    figure = plt.figure(figsize=(6.4, 2.9), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.06)
    if name in updates.UPDATES:
        updates.draw(figure, data)
    elif name in lists.LISTS:
        lists.draw(figure, data)
    else:
        plots.draw(figure, name, data)
    numbers = json.dumps(data, separators=(",", ":"))
    made = {"Date": None, "Creator": f"matplotlib {mpl.__version__}", "Description": numbers}
    figure.savefig(folder / f"{name}.svg", metadata=made)
    plt.close(figure)


def main(folder: Path) -> None:
    """Draw all figures into a folder."""
    for name in FIGURES:
        draw(name, compute(name), folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
