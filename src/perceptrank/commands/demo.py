"""A first look: every learner on one simulated stream that a perfect linear ranker exists for."""

import json
import time

from rich.console import Console
from rich.table import Table

from perceptrank.data.separable import separable
from perceptrank.learners import algorithms


def run(n_queries: int, seed: int, *, as_json: bool) -> None:
    """Learn, and print a table."""
    console = Console()
    with console.status("Simulating a stream; the first run also compiles, which takes a moment"):
        simulated = separable(n_queries, seed=seed)
        rows = []
        for name, kind in algorithms().items():
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
    table = Table(
        title=f"{n_queries:,} simulated queries, separable with margin {simulated.margin}: ranked, measured, learned",
        title_justify="left",
    )
    table.add_column("algorithm")
    for heading in list(rows[0])[1:]:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*(_shown(value) for value in row.values()))
    console.print(table)
    console.print(
        "Loss is 1 - NDCG@10, summed over queries. slam, minimax and listwise are proved to stop losing. perceptron "
        "learns relevant against irrelevant documents and knows no grades."
    )


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
