"""The lower-bound game."""

from typing import Any

import numpy as np

from perceptrank.commands.making import make_learner
from perceptrank.commands.tables import show
from perceptrank.theory import play


def run(
    algorithm: str,
    settings: dict[str, Any],
    *,
    radius: float,
    margin: float,
    n_documents: int,
    version: str,
    rounds: int | None,
    measure: str,
    as_json: bool,
) -> None:
    """Play, and print what was lost and by what it was bound to be lost."""
    game = play(
        make_learner(algorithm, settings),
        radius=radius,
        margin=margin,
        n_documents=n_documents,
        version=version,
        rounds=rounds,
        measure=measure,
    )
    name = str(game.trace.measures[0])
    losses = game.trace.losses(name)
    row = {
        "algorithm": algorithm,
        "rounds": len(losses),
        "lost": int(np.count_nonzero(losses)),
        "loss": float(losses.sum()),
        "lower bound": game.lower_bound,
        "margin": game.margin,
    }
    title = f"1 - {name} against the adversary, radius {radius:g}, margin {margin:g}, {version} version"
    extra = {"radius": radius, "margin": margin, "version": version, "measure": name}
    show([row], title=title, as_json=as_json, extra=extra | {"losses": losses.tolist()})
