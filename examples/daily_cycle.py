"""A week of a shop whose ranker learns every night.

Each day has new judged queries, and three steps, in this order: compare what was learned so far with what is live, on
queries that neither has seen; go live, with a file for the engine, if the answer is yes; learn the day.

    python daily_cycle.py --days 7 --queries 150 --out shop
"""

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import perceptrank as pr

NAMES = ["title_bm25", "body_bm25", "price", "age", "in_stock", "clicks"]
# What customers like, which nobody tells the ranker: from the fourth day on there is a sale, and prices count.
LIKED = np.array([0.25, 0.05, -0.01, -0.003, 1.5, 0.08])
IN_THE_SALE = np.array([0.1, 0.0, -0.1, -0.003, 1.5, 0.08])
TODAY = {"title_bm25": 1.0, "body_bm25": 0.4, "clicks": 0.2}  # what somebody once chose


def judged_day(day: int, n_queries: int, seed: int) -> pr.QueryStream:
    """Simulate the judged queries of a day: 5 to 15 products each, graded 0 to 4 by noisy judges."""
    rng = np.random.default_rng([seed, day])
    sizes = rng.integers(5, 16, size=n_queries)
    n = int(sizes.sum())
    columns = [
        *(rng.gamma(3.0, 2.0, n), rng.gamma(2.0, 2.0, n), rng.lognormal(3.0, 0.6, n)),
        *(rng.exponential(200.0, n), rng.random(n) < 0.8, rng.poisson(8.0, n)),
    ]
    X = np.column_stack(columns).astype(np.float64)
    grades = np.digitize(X @ (LIKED if day < 4 else IN_THE_SALE) + rng.normal(size=n), [0.0, 1.0, 2.0, 3.0])
    qids = 10_000 * day + np.arange(n_queries)
    return pr.QueryStream.from_arrays(X, grades, qid=np.repeat(qids, sizes), feature_names=NAMES)


def main() -> None:
    """Run the days, and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=7, help="days to run (default 7)")
    parser.add_argument("--queries", type=int, default=150, help="judged queries of a day (default 150)")
    parser.add_argument("--confidence", type=float, default=0.99, help="of a day's comparison (default 0.99)")
    parser.add_argument("--engine", choices=pr.deploy.targets(), default="sql", help="what to export to (default sql)")
    parser.add_argument("--out", type=Path, default=Path("shop"), help="folder of the models (default shop)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name, least in {"days": 1, "queries": 1, "seed": 0}.items():
        if getattr(options, name) < least:
            parser.error(f"--{name} must be a whole number >= {least}, got {getattr(options, name)}")
    if not 0 < options.confidence < 1:
        parser.error(f"--confidence must be between 0 and 1, got {options.confidence}")
    options.out.mkdir(parents=True, exist_ok=True)

    old_weights = pr.FixedRanker(TODAY)
    live: pr.Learner = old_weights
    live_is = "the old weights"
    candidate = pr.Forgetting(pr.ListwisePerceptron("ndcg@10", transforms="running"))
    table = Table("day", "live", "learned", "difference", "may it go live?", "live from tomorrow on", title="NDCG@10")
    for day in range(1, options.days + 1):
        today = judged_day(day, options.queries, options.seed)
        model = options.out / f"model-{day - 1}.json"  # what was learned up to yesterday
        if day == 1:  # nothing is learned yet, so that there is nothing to compare
            row = [f"{pr.evaluate(live, today, 'ndcg@10').mean('ndcg@10'):.3f}", "–", "–", "–"]
        else:
            rankers = {"live": live, "learned": candidate}
            result = pr.evaluate(rankers, today, ["ndcg@10"], confidence=options.confidence)
            (found,) = result.differences
            interval = f"{found.difference:+.3f}"
            if np.isfinite(found.low):  # few queries have none
                interval += f" ({found.low:+.3f} to {found.high:+.3f})"
            row = [f"{found.old:.3f}", f"{found.new:.3f}", interval, result.answer]
            if result.may_go_live:
                try:
                    exported = pr.deploy.export(candidate, options.engine)
                    agrees = pr.deploy.parity(candidate, today, options.engine).agrees
                except (ImportError, OSError, ValueError) as error:  # an engine that is not here, or takes other models
                    raise SystemExit(f"--engine {options.engine}: {error}") from None
                if not agrees:
                    raise SystemExit(f"{options.engine} does not rank as {model.name} does: nothing goes live")
                exported.save(options.out / f"live.{options.engine}")  # the engine's file
                live, live_is = pr.load(model), model.name
        candidate.learn(today, [])  # only now: the day was a test before
        candidate.save(options.out / f"model-{day}.json")
        table.add_row(str(day), *row, live_is)
    console = Console(width=100)
    console.print(table)

    week_after = judged_day(options.days + 1, 10 * options.queries, options.seed)
    old, new = (pr.evaluate(one, week_after, "ndcg@10").mean("ndcg@10") for one in (old_weights, live))
    console.print(f"On the days after, the old weights have {old:.3f}, and what is live, {live_is}, has {new:.3f}.")
    console.print(
        f"{options.out} has the models of all days"
        + (f", and live.{options.engine}." if live is not old_weights else ".")
    )


if __name__ == "__main__":
    main()
