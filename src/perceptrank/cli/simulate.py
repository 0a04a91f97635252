"""Simulated streams as files."""

import json
import sys
from typing import Any

from perceptrank.cli.convert import Writing, write
from perceptrank.datasets.mslr_shaped import mslr_shaped
from perceptrank.datasets.separable import separable_blocks
from perceptrank.io.sources import format_for


def run(
    kind: str,
    writing: Writing,
    *,
    n_queries: int,
    n_documents: int | None,
    n_features: int | None,
    margin: float | None,
    noise: float,
    label_noise: float | None,
    seed: int,
    as_json: bool,
) -> None:
    """Write a simulated stream; of a separable one, print the ranker and the margin with --json."""
    sizes = {"n_documents": n_documents, "n_features": n_features}
    only_separable = {"margin": margin, "label_noise": label_noise}
    if kind != "separable" and any(value is not None for value in only_separable.values()):
        raise ValueError("--margin and --label-noise are for --kind separable")
    given: dict[str, Any] = {name: value for name, value in (sizes | only_separable).items() if value is not None}
    report: dict[str, object] = {"destination": writing.destination, "queries": n_queries, "seed": seed}
    if kind == "separable":
        simulated = separable_blocks(n_queries, noise=noise, seed=seed, **given)
        blocks = iter(simulated.blocks)
        report |= {"margin": simulated.margin, "ranker": simulated.ranker.tolist()}
    else:
        blocks = mslr_shaped(n_queries, noise=noise, seed=seed, **given).blocks()
    write(blocks, writing, writing.format or format_for(writing.destination))
    if as_json:
        print(json.dumps(report, indent=1), file=sys.stderr if writing.destination == "-" else sys.stdout)
    elif writing.destination != "-":
        print(f"{writing.destination}: {n_queries:,} queries, {kind}, seed {seed}")
