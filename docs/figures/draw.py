"""Draw the figures of docs/theory/: `python docs/figures/draw.py [FOLDER]`, in about a minute."""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("svg")
from matplotlib import pyplot as plt

import perceptrank as pr
from perceptrank.theory import bounds, theorems

# The same bytes whenever it is run, and text that is text.
mpl.rcParams.update(
    {"svg.hashsalt": "perceptrank", "svg.fonttype": "none", "font.size": 9, "font.family": "sans-serif"}
)
COLOURS = {"top": "#1b6ca8", "uniform": "#c4501b", "places": "#3c7d3c"}
PLAIN = {"average": False, "transforms": None}


def price_of_a_margin(axes: Any) -> None:
    """The constant against the relative margin, and the weight of outranked documents on the adversary's streams."""
    margin, sizes = 0.05, {"top": 2, "uniform": 100, "places": 1000}
    fine, coarse = np.linspace(0.0, 4.0, 161), [0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0]
    for violators, colour in COLOURS.items():
        measure = "ap" if violators == "places" else "ndcg@1"
        if violators != "places":  # whose line is that of "uniform"
            splits = violators == "top"
            allowed = [theorems.listwise(rho, splits=splits).bound(diameter=1, margin=1.0) for rho in fine]
            axes.plot(fine, allowed, color=colour, linewidth=1.2)
        reached = []
        for rho in coarse:
            costly = pr.theory.costly_stream(
                violators, relative_margin=rho, margin=margin, n_documents=sizes[violators], measure="ndcg@1"
            )
            learner = pr.ListwisePerceptron(measure, violators=violators, relative_margin=rho, **PLAIN)
            # One document of a query is relevant: it has all the weight, and is outranked if anything is lost.
            lost = np.count_nonzero(learner.learn(costly.stream, measure).losses(measure) > 0)
            reached.append(lost * margin**2)
        label = f'"{violators}", {sizes[violators]} documents'
        axes.plot(coarse, reached, "o", color=colour, markersize=4, label=label)
    axes.set(
        xlabel="relative margin ρ", ylabel="weight of outranked documents, in D²/γ²", ylim=(0, None), xlim=(-0.1, 4.1)
    )
    axes.legend(frameon=False)


def documents_of_a_query(axes: Any) -> None:
    """What the exact adversary takes, against the number of documents, and what the theorems allow and demand."""
    margin, numbers = 0.25, np.arange(2, 33)
    for measure, colour in (("ap", "#1b6ca8"), ("ndcg", "#c4501b")):
        allowed = [bounds.largest_share(measure, int(m)) * 4 / margin**2 for m in numbers]
        axes.plot(numbers, allowed, color=colour, linewidth=1.2)
        axes.axhline(bounds.lower(radius=1, margin=margin, measure=measure), color=colour, linewidth=1, linestyle=":")
        lost = []
        for m in (some := [2, 3, 4, 6, 8, 12, 16, 24, 32]):
            learner = pr.ListwisePerceptron(measure, relative_margin=0, **PLAIN)
            game = pr.theory.play(learner, margin=margin, n_documents=m, version="exact", measure=measure)
            lost.append(game.trace.losses(measure).sum())
        axes.plot(some, lost, "o", color=colour, markersize=4, label={"ap": "1 − AP", "ndcg": "1 − NDCG"}[measure])
    axes.set(xlabel="documents of a query m", ylabel="loss in 64 rounds, R = 1, γ = 1/4", ylim=(0, 66))
    axes.legend(frameon=False, loc="lower right")


def safe_averaging(axes: Any) -> None:
    """Losses of the mean, of the current weights and of the rankings used, on the stream that deceives the mean."""
    n = 2000
    differences = np.repeat([[1.0, 0.0], [-0.9, 0.2]], n, axis=0)
    X = np.stack([differences, np.zeros_like(differences)], axis=1).reshape(4 * n, 2)
    learner = pr.ListwisePerceptron(transforms=None)
    rows = []
    for start in range(0, 2 * n, 10):
        part = slice(2 * start, 2 * start + 20)
        learner.learn(pr.QueryStream.from_arrays(X[part], [1, 0] * 10, group=[2] * 10))
        rows.append((learner.mean_loss, learner.current_loss, learner.used_loss))
    rounds = np.arange(10, 2 * n + 1, 10)
    for values, (name, colour) in zip(
        np.transpose(rows),
        (("the mean of all iterates", "#c4501b"), ("current weights", "#3c7d3c"), ("rankings used", "#1b6ca8")),
        strict=True,
    ):
        axes.plot(rounds, values, color=colour, linewidth=1.4, label=name)
    axes.set(xlabel="round", ylabel="cumulative loss, 1 − NDCG", yscale="log", ylim=(0.3, None))
    axes.legend(frameon=False, loc="upper left")


FIGURES = {
    "price-of-a-margin": price_of_a_margin,
    "documents-of-a-query": documents_of_a_query,
    "safe-averaging": safe_averaging,
}


def main(folder: Path) -> None:
    """Draw all figures into a folder."""
    for name, draw in FIGURES.items():
        figure, axes = plt.subplots(figsize=(5.6, 3.2), layout="constrained")
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
        plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
