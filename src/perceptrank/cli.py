"""The command line."""

from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Online learning to rank from a stream of judged queries."
)


@app.callback()
def main() -> None:
    """Online learning to rank from a stream of judged queries."""


@app.command()
def demo(
    queries: Annotated[int, typer.Option(min=1, help="How many queries to simulate.")] = 5000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Learn a simulated separable stream with every learner and print how each one ranked it.

    Example: perceptrank demo --queries 2000 --seed 7
    """
    from perceptrank.demo import run

    run(queries, seed, as_json=json)
