"""The command `demo`: the paper's learners and ours on one simulated stream that has a perfect linear ranker."""

import time
from typing import Annotated

import typer

import perceptrank as pr
from perceptrank.cli.making import make_learner
from perceptrank.cli.options import AsJson, SimulationSeed
from perceptrank.cli.progress import announce_compiling
from perceptrank.cli.tables import console, print_json, print_rows, print_text

LEARNERS = ("listnet", "listwise", "minimax", "perceptron", "slam")


def demo(
    n_queries: Annotated[int, typer.Option("--queries", min=1, help="How many queries to simulate.")] = 5000,
    seed: SimulationSeed = 0,
    as_json: AsJson = False,
) -> None:
    """Learn a simulated separable stream with the paper's learners and ours, and print how each one ranked it.

    Example: perceptrank demo --queries 2000 --seed 7
    """
    announce_compiling()
    with console(stderr=True).status("Simulating and learning"):
        simulated = pr.separable(n_queries, seed=seed)
        rows = []
        for name in LEARNERS:
            settings = {"average": False, "transforms": None}  # what the theorems are about
            make_learner(name, settings).learn(simulated.stream[:1], ["ndcg@10", "ap"])
            learner = make_learner(name, settings)
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
        print_json({"queries": n_queries, "seed": seed, "margin": simulated.margin, "learners": rows})
        return
    title = f"{n_queries:,} simulated queries, separable with margin {simulated.margin}: ranked, measured, learned"
    names = {"loss, 2nd half": "2nd half"}  # so that it has room on a terminal of 80 columns
    print_rows([{names.get(key, key): value for key, value in row.items()} for row in rows], title)
    print_text(
        "Loss is 1 - NDCG@10, summed over queries. slam, minimax and listwise are proved to stop losing. perceptron "
        "learns relevant against irrelevant documents and knows no grades."
    )
