"""Let an online learner grow trees, and keep trees that are there already fresh.

What users want here is no weighted sum: a price near the one they have in mind, and a product that is either new or
well known. A linear learner is good early and stays behind later; trees need many queries first. The third ranker has
both: LambdaMART, fitted again at every doubling of the queries, is one more feature of the linear learner. Then users
change their minds, and learning goes on from the trees: their splits stay, the values of their leaves are learned.

    python grow_trees.py --queries 4000 --save trees.json
"""

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import perceptrank as pr

N_PRODUCTS = 15


def judged(n_queries: int, seed: int, budget: float = 0.3) -> pr.QueryStream:
    """Simulate judged queries; the best price is `budget` in units of the deviation of prices."""
    n = N_PRODUCTS * n_queries
    title, price, age, sales, noise = np.random.default_rng(seed).normal(size=(5, n))
    wanted = title - 1.2 * abs(price - budget) + np.maximum(-age, sales) + 0.7 * noise
    return pr.QueryStream.from_arrays(
        np.column_stack([title, price, age, sales]),
        np.digitize(wanted, [-1.0, 0.0, 1.0, 2.0]),
        group=[N_PRODUCTS] * n_queries,
        feature_names=["title", "price", "age", "sales"],
    )


def main() -> None:
    """Learn side by side, then learn on from the trees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=4000, help="queries before users change (default 4000)")
    parser.add_argument("--later", type=int, default=2000, help="queries after that (default 2000)")
    parser.add_argument("--save", type=Path, default=Path("trees.json"), help="file of the model (default trees.json)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name, least in {"queries": 2000, "later": 200, "seed": 0}.items():
        if getattr(options, name) < least:
            parser.error(f"--{name} must be a whole number >= {least}, got {getattr(options, name)}")
    if not options.save.absolute().parent.is_dir():
        parser.error(f"--save must be a file of a folder that exists, got {options.save}")

    stream = judged(options.queries, options.seed)
    grown = pr.WithTrees()
    learners = {"linear": pr.ListwisePerceptron(), "linear with trees": grown}
    ends = [0, 250, 1000, options.queries]
    parts = [slice(first, last) for first, last in pairwise(ends)]
    names = [f"{part.start + 1:,} to {part.stop:,}" for part in parts]
    title = "NDCG@10 of each query before its grades were learned"
    table = Table("ranker", *(f"queries {name}" for name in names), title=title)
    for name, learner in learners.items():
        values = learner.learn(stream, "ndcg@10").values("ndcg@10")
        table.add_row(name, *(f"{values[part].mean():.3f}" for part in parts))
    console = Console(width=100)
    console.print(table)
    shares = {effect.feature: effect.share for effect in pr.deploy.explain(grown).features}
    console.print(f"The trees' score has {shares['trees']:.0%} of the importance of all features.")

    later = judged(options.later, options.seed + 1, budget=-1.0)
    leaves = pr.TreeLeaves(grown.trees.forest)
    start = leaves.start_weights(stream[:100])
    fresh = pr.ListwisePerceptron(initial_weights=start, transforms=leaves, average=False)
    rankers = {"trees as they are": pr.FixedRanker(start, transforms=leaves), "leaves that learn": fresh}
    table = Table("ranker", "first half", "second half", title="NDCG@10 after users have become thrifty")
    half = len(later) // 2
    for name, ranker in rankers.items():
        values = ranker.learn(later, "ndcg@10").values("ndcg@10")
        table.add_row(name, f"{values[:half].mean():.3f}", f"{values[half:].mean():.3f}")
    console.print(table)
    fresh.save(options.save)
    console.print(f"{options.save} has the same splits, with the values of leaves that rank now.")


if __name__ == "__main__":
    main()
