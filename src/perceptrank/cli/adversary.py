"""The lower-bound game."""

from typing import Any

import numpy as np

from perceptrank.cli.making import make_learner
from perceptrank.cli.tables import show
from perceptrank.learners.learner import Learner
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
    learner = make_learner(algorithm, settings)
    game = play(
        learner,
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
        "per round": float(losses.mean()),
        "lower bound": game.lower_bound,
        "upper bound": _upper_bound(learner, radius, game.margin),
        "margin": game.margin,
    }
    title = f"1 - {name} against the adversary, radius {radius:g}, margin {margin:g}, {version} version"
    extra = {"radius": radius, "margin": margin, "version": version, "measure": name}
    played = {"losses": losses.tolist(), "separator": game.separator.tolist()}
    show([row], title=title, as_json=as_json, extra=extra | played)
    if not as_json:
        shown = ", ".join(f"{one:+.3f}" for one in game.separator[:4])
        print(f"({shown}, ...) of {len(game.separator):,} weights ranks all {len(losses):,} queries with that margin")
        if learner.compared_by is not None and learner.average:
            print("it ranked with the mean of its weights, for which there is no upper bound; --set average=false")


def _upper_bound(learner: Learner, radius: float, margin: float) -> float | None:
    """What the learner's theorem allows, if it has one on the rankings that it shows."""
    if learner.compared_by is None or learner.average:
        return None
    return learner.guarantee(radius=radius, margin=margin)
