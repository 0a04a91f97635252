"""A first look: the paper's learners and ours on one simulated stream that a perfect linear ranker exists for."""

import json
import time

from rich.console import Console

from perceptrank.cli import first_use
from perceptrank.cli.tables import console, make_table
from perceptrank.datasets.separable import separable
from perceptrank.learners.registry import algorithms

LEARNERS = ("listnet", "listwise", "minimax", "perceptron", "slam")


def run(n_queries: int, seed: int, *, as_json: bool) -> None:
    """Learn, and print a table."""
    first_use.prepare()
    with Console(stderr=True).status("Simulating and learning"):
        simulated = separable(n_queries, seed=seed)
        rows = []
        for name in LEARNERS:
            kind = algorithms()[name]
            kind().learn(simulated.stream[:1], ["ndcg@10", "ap"])
            learner = kind().set_params(average=False)
            start = time.perf_counter()
            trace = learner.learn(simulated.stream, ["ndcg@10", "ap"])
            seconds = time.perf_counter() - start
            rows.append(
                {
                    "algorithm": name,
                    "ndcg@10": trace.mean("ndcg@10"),
                    "ap": trace.mean("ap"),
                    "updates": learner.n_updates,
                    "loss": float((1 - trace.values("ndcg@10")).sum()),
                    "loss, 2nd half": float((1 - trace.values("ndcg@10")[n_queries // 2 :]).sum()),
                    "queries/s": round(n_queries / seconds),
                }
            )
    if as_json:
        print(json.dumps({"queries": n_queries, "seed": seed, "margin": simulated.margin, "learners": rows}, indent=1))
        return
    title = f"{n_queries:,} simulated queries, separable with margin {simulated.margin}: ranked, measured, learned"
    out = console()
    out.print(make_table(rows, title))
    out.print(
        "Loss is 1 - NDCG@10, summed over queries. slam, minimax and listwise are proved to stop losing. perceptron "
        "learns relevant against irrelevant documents and knows no grades."
    )
