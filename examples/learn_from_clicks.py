"""Learn from the clicks of a simulated shop, and decide without a grade whether the new ranking may go live.

Each week, users search, today's ranker answers with lists in which a coin swaps neighbours, and their clicks are
logged. Two learners read the week's log: one takes clicks as grades, as is often done, and one removes the bias towards
high places. Then the next week's log decides between them and today's ranker. True grades are used only to simulate the
users, and for the last column, which nobody has in a real shop.

    python learn_from_clicks.py --weeks 3 --lists 4000 --user navigational
"""

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import perceptrank as pr

N_PRODUCTS = 20
USERS = ["perfect", "navigational", "informational", "almost-random"]


def make_shop(n_queries: int, seed: int) -> pr.QueryStream:
    """Return graded queries. Today's `score` knows the title, and favours new products for no good reason."""
    n = N_PRODUCTS * n_queries
    title, popularity, price, age, noise = np.random.default_rng(seed).normal(size=(5, n))
    return pr.QueryStream.from_arrays(
        np.column_stack([title, popularity, price, age, title - age / 2]),
        np.digitize(title + popularity - price + noise, [0, 1, 2, 3]),
        group=[N_PRODUCTS] * n_queries,
        feature_names=["title", "popularity", "price", "age", "score"],
    )


def ndcg(ranker: pr.Learner, shop: pr.QueryStream) -> float:
    """Return the true NDCG@10 of a ranker."""
    return pr.evaluate(ranker, shop, "ndcg@10").mean("ndcg@10")


def main() -> None:
    """Run the weeks, and print what each log decides."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weeks", type=int, default=3, help="weeks of clicks (default 3)")
    parser.add_argument("--lists", type=int, default=4000, help="lists shown each week (default 4000)")
    parser.add_argument("--user", choices=USERS, default="navigational", help="kind of user (default navigational)")
    parser.add_argument(
        "--save", type=Path, default=Path("clicks.json"), help="file of the winner (default clicks.json)"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name, least in {"weeks": 1, "lists": 100, "seed": 0}.items():
        if getattr(options, name) < least:
            parser.error(f"--{name} must be a whole number >= {least}, got {getattr(options, name)}")
    if not options.save.absolute().parent.is_dir():
        parser.error(f"--save must be a file of a folder that exists, got {options.save}")

    users, shop = pr.clicks.user(options.user), make_shop(300, options.seed)
    today = pr.FixedRanker({"score": 1.0})
    naive, debiased = pr.ListwisePerceptron(), pr.ClickPerceptron(production="score")
    live: pr.Learner = today
    table = Table("week", "clicks", "ranker", "preferred by clicks", "may it go live?", "true NDCG@10")
    for week in range(options.weeks + 1):
        log = pr.simulate_clicks(
            shop, users, ranker=live, policy="fair-pairs", impressions=options.lists, seed=options.seed + week
        )
        if week > 0:  # the models were learned in earlier weeks, so this log is new to them
            for name, ranker in {"clicks as grades": naive, "debiased clicks": debiased}.items():
                found = pr.evaluate({"live": live, name: ranker}, log, "preferences")
                (difference,) = found.differences
                interval = f"{difference.difference:+.3f} ({difference.low:+.3f} to {difference.high:+.3f})"
                row = [str(week), f"{log.clicked.sum():,.0f}", name, interval, found.answer]
                table.add_row(*row, f"{ndcg(ranker, shop):.3f}", end_section=ranker is debiased)
                if ranker is debiased and found.may_go_live:
                    debiased.save(options.save)
                    live = pr.load(options.save)
        naive.learn(log.with_columns({"relevance": log.clicked}), [])
        debiased.learn(log, [])
    console = Console(width=100)
    console.print(table)
    unseen = make_shop(1000, options.seed + 10_000)
    console.print(f"On queries nobody has seen, today's ranker has {ndcg(today, unseen):.3f},", end=" ")
    if live is today:
        console.print("and it stays: no log has shown that debiased clicks rank better.")
    else:
        console.print(f"and the live one, {options.save}, has {ndcg(live, unseen):.3f}.")


if __name__ == "__main__":
    main()
