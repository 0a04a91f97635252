"""Compare learners over several orders of the queries, pick one by a rule, and save it.

Online learners depend on the order in which queries come, and a test has few queries. Both are drawn again and again:
a learner beats another if it does so whatever the draw. The rule: of those that no other beats, take the simplest, the
first of the list.

    python compare_and_pick.py --queries 300 --orders 10 --save picked.json
"""

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import perceptrank as pr


def learners() -> dict[str, pr.Learner]:
    """The learners to choose from, the simplest first."""
    return {
        "listwise": pr.ListwisePerceptron("ndcg@10"),
        "ridge": pr.OnlineRidge(transforms="auto"),
        "both": pr.Sum([pr.ListwisePerceptron("ndcg@10"), pr.OnlineRidge(transforms="auto")]),
        "curves": pr.ListwisePerceptron("ndcg@10", transforms="auto+bins"),
        "minimax": pr.MinimaxPerceptron(transforms="auto"),
        "no scaling": pr.RankNet(learning_rate=0.01),
    }


def judged(n_queries: int, seed: int) -> pr.QueryStream:
    """Simulate queries of 12 documents with 20 correlated features of very different scales, and noisy grades."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(12 * n_queries, 20)) @ (rng.normal(size=(20, 20)) + 3 * np.eye(20))
    wanted = mixed @ rng.normal(size=20)
    grades = np.digitize(wanted / wanted.std() + 0.7 * rng.normal(size=len(wanted)), [0.0, 0.7, 1.3, 1.9])
    return pr.QueryStream.from_arrays(mixed * 10.0 ** rng.uniform(-2, 2, 20), grades, group=[12] * n_queries)


def main() -> None:
    """Compare, pick, learn everything, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=300, help="queries to learn from (default 300)")
    parser.add_argument("--test", type=int, default=200, help="held-out queries (default 200)")
    parser.add_argument("--orders", type=int, default=10, help="random orders of the queries (default 10)")
    parser.add_argument(
        "--save", type=Path, default=Path("picked.json"), help="file of the model (default picked.json)"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name, least in {"queries": 1, "test": 1, "orders": 1, "seed": 0}.items():
        if getattr(options, name) < least:
            parser.error(f"--{name} must be a whole number >= {least}, got {getattr(options, name)}")
    if not options.save.absolute().parent.is_dir():
        parser.error(f"--save must be a file of a folder that exists, got {options.save}")

    stream = judged(options.queries + options.test, options.seed)
    train, test = stream[: options.queries], stream[options.queries :]
    measures = ["ndcg@10", "ap"]
    result = pr.compare(learners(), train, measures, test=test, orders=options.orders, seed=options.seed)

    console = Console(width=100)
    title = f"{len(test)} held-out queries after a pass over {len(train)}, {options.orders} orders"
    table = Table("", "learner", "NDCG@10", "over orders", "95 % interval", "beats", title=title)
    standings = result.standings("ndcg@10", on="test")
    letters = {one.name: one.letter for one in standings}
    for one in standings:
        interval = f"{one.low:.3f} to {one.high:.3f}" if np.isfinite(one.low) else "–"  # few queries have none
        spread = f"± {one.spread:.3f}" if options.orders > 1 else "–"
        beaten = " ".join(sorted(letters[name] for name in one.beats)) or "–"
        table.add_row(one.letter, one.name, f"{one.mean:.3f}", spread, interval, beaten)
    console.print(table)

    lost = {name for one in standings for name in one.beats}
    name = next(name for name in learners() if name not in lost)
    console.print(f"No other beats [bold]{name}[/bold], and it is the simplest of which that can be said.")

    ranker = learners()[name]
    trace = ranker.learn(train, measures)
    ranker.learn(test, [])  # the choice is made: nothing is held out any more
    ranker.save(options.save)
    console.print(f"It has learned {ranker.n_queries} queries and is in {options.save}.")
    console.print(f"Its NDCG@10 before each answer was {trace.mean('ndcg@10'):.3f} over all training queries,")
    last = trace.values("ndcg@10")[len(train) // 2 :]
    console.print(f"and {last.mean():.3f} over the second half of them.")


if __name__ == "__main__":
    main()
