"""Teach a perceptron to rank, one query after the other, and watch its weights turn.

Documents have two features and grades 0 to 2. Some direction ranks all of them correctly with a margin; the perceptron
does not know it. It is told of a mistake, and moves its weights along the pair that is most in the wrong order. Theory
says how often that can happen at all: D² / γ² times, D being the largest distance of two documents of a query, γ the
margin. An adversary, who grades documents after they were ranked, comes as close to that as one can.

    python teach_the_perceptron.py --rounds 200 --plot lesson.svg
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import perceptrank as pr


def degrees_between(first: Any, second: Any) -> float:
    """The angle of two vectors; that of a vector without direction is 90."""
    lengths = np.linalg.norm(first) * np.linalg.norm(second)
    return float(np.degrees(np.arccos(np.clip(first @ second / lengths, -1, 1)))) if lengths > 0 else 90.0


def main() -> None:
    """Teach it, and print each round that taught something."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200, help="queries (default 200)")
    parser.add_argument("--documents", type=int, default=5, help="documents of a query (default 5)")
    parser.add_argument("--margin", type=float, default=0.3, help="of the best direction (default 0.3)")
    parser.add_argument(
        "--plot", type=Path, help="image file for the way of the weights, and mistakes against the bound"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for name, least in {"rounds": 1, "documents": 2, "seed": 0}.items():
        if getattr(options, name) < least:
            parser.error(f"--{name} must be a whole number >= {least}, got {getattr(options, name)}")
    if not options.margin > 0:
        parser.error(f"--margin must be a number > 0, got {options.margin}")
    if options.plot and not options.plot.absolute().parent.is_dir():
        parser.error(f"--plot must be a file of a folder that exists, got {options.plot}")

    sizes = {"n_documents": options.documents, "n_features": 2, "n_grades": 3}
    lesson = pr.separable(options.rounds, **sizes, margin=options.margin, noise=3.0, seed=options.seed)
    diameter = pr.theory.diameter(lesson.stream)

    ranker = pr.MinimaxPerceptron(average=False, transforms=None)
    bound = ranker.guarantee(diameter=diameter, margin=lesson.margin)
    table = Table("round", "grades as ranked", "weights", "angle to the best", "mistakes", title="What was taught")
    ways, mistakes = [np.zeros(2)], []
    for number, query in enumerate(lesson.stream, 1):
        scores = query.X @ ways[-1]
        order = np.lexsort((query.relevance, -scores))  # of equal scores, the worse first: no luck is counted
        ranked = query.relevance[order].astype(int)
        taught = ranker.learn_one(query.X, query.relevance)
        assert taught == any(np.diff(ranked) > 0)  # it learns from mistakes, and from nothing else
        ways.append(np.array(ranker.weights))
        mistakes.append(ranker.n_updates)
        if taught:
            shown = " ".join(map(str, ranked))
            angle = degrees_between(ways[-1], lesson.ranker)
            weights = f"{ways[-1][0]:+.2f} {ways[-1][1]:+.2f}"
            table.add_row(str(number), shown, weights, f"{angle:.0f}°", f"{mistakes[-1]}")
    console = Console(width=90)
    console.print(table)
    last = f", the last in round {mistakes.index(mistakes[-1]) + 1}" if mistakes[-1] else ""
    console.print(f"{options.rounds} rounds, {mistakes[-1]} mistakes{last}.")
    console.print(
        f"D = {diameter:.2f}, γ = {lesson.margin:g}: at most D² / γ² = {bound:.0f} mistakes, however long it goes on."
    )
    opponent = pr.MinimaxPerceptron(average=False, transforms=None)
    game = pr.theory.play(opponent, radius=1.0, margin=0.1)
    console.print(
        f"Against the adversary with D = 2, γ = 0.1: {opponent.n_updates} mistakes in {len(game.stream)} rounds, "
        f"at most {opponent.guarantee(diameter=2.0, margin=0.1):.0f} were possible."
    )
    if options.plot:
        draw(options.plot, np.array(ways), mistakes, bound, lesson)
        console.print(f"{options.plot} shows the way of the weights.")


def draw(path: Path, ways: Any, mistakes: list[int], bound: float, lesson: pr.SeparableStream) -> None:
    """Draw the way of the weights beside the best direction, and mistakes beside their bound."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, (plane, rounds) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    reach = 1.1 * np.abs(ways).max()
    plane.plot(
        [0, reach * lesson.ranker[0]], [0, reach * lesson.ranker[1]], color="#3c7d3c", label="the best direction"
    )
    plane.plot(*ways.T, "o-", color="#1b6ca8", markersize=3, linewidth=1, label="the weights, round by round")
    plane.set(xlabel="weight of the first feature", ylabel="weight of the second feature", aspect="equal")
    plane.legend(frameon=False, fontsize=8)
    rounds.step(range(1, len(mistakes) + 1), mistakes, where="post", color="#1b6ca8", label="mistakes")
    rounds.axhline(bound, color="#c4501b", linestyle="--", label="D² / γ²")
    rounds.set(xlabel="round", yscale="log", ylim=(0.8, 2 * bound))
    rounds.legend(frameon=False, fontsize=8)
    figure.savefig(path)


if __name__ == "__main__":
    main()
