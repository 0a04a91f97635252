"""The history of a model: what it has seen, lost and promised."""

from dataclasses import asdict, dataclass
from typing import Any

from perceptrank.learners.learner import Learner
from perceptrank.learners.listwise.perceptron import ListwisePerceptron
from perceptrank.learners.model import Model
from perceptrank.learners.published.prank import PRank
from perceptrank.learners.tally import CURRENT_LOSS, MASS, MEAN_LOSS, ROUNDS, UPDATES, USED_LOSS
from perceptrank.learners.wrappers.forgetting import Forgetting
from perceptrank.learners.wrappers.sum import SumModel
from perceptrank.learners.wrappers.tournament import Tournament, TournamentModel
from perceptrank.learners.wrappers.wrapper import Ensemble


@dataclass(frozen=True)
class History:
    """The history of a model.

    It has learned from `queries`, in `rounds` of which `updates` moved the weights, by `moved` in all; with a theorem,
    the current weights have lost at most that. `ranks_with` is "mean" or "current". `losses` are cumulative, of a
    listwise perceptron: of the rankings used, by the mean, and by the current weights. No ranker has a margin above
    `largest_margin` on these queries. `lines` say all this in words.
    """

    queries: int
    rounds: int
    updates: int
    moved: float
    ranks_with: str
    losses: dict[str, float]
    largest_margin: float | None
    lines: tuple[str, ...]

    def as_plain(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "lines"}


def history_of(model: Learner, state: Model) -> History:
    """Read the history of a model."""
    ranking, held = model, state
    lines = []
    if isinstance(model, Tournament) and isinstance(state, TournamentModel):
        ranking = state.leader
        held = ranking.model
        lines.append(_standings(model, state, ranking))
    tally = held.tally
    rounds, updates, moved = int(tally[ROUNDS]), int(tally[UPDATES]), float(tally[MASS])
    with_mean = held.ranks_with
    lines.append("It has learned from no queries.")
    if rounds:
        of = "of them" if rounds == state.queries else f"of {rounds:,} rounds"
        seen = "1 query" if state.queries == 1 else f"{state.queries:,} queries"
        lines[-1] = f"It has learned from {seen}; {updates:,} {of} moved the weights."
    if isinstance(held, SumModel):
        units = ", ".join(f"{own.name} / {unit:.4g}" for own, unit in zip(held.members, held.units, strict=True))
        lines.append(f"Its score is a sum: {units}.")
    elif isinstance(ranking, Ensemble):
        lines.append(f"Its weights are the mean of those of {len(held.members)} members.")
    elif ranking.average:
        which = "the mean of its weights after each round" if with_mean == "mean" else "its current weights"
        reason = "" if with_mean == "mean" or not rounds else ", as their mean has lost much more"
        lines.append(f"It ranks with {which}{reason}.")
    losses: dict[str, float] = {}
    if isinstance(ranking, ListwisePerceptron) and ranking.average and tally[USED_LOSS] > 0:
        places = {"used": USED_LOSS, "mean": MEAN_LOSS, "current": CURRENT_LOSS}
        losses = {name: float(tally[place]) for name, place in places.items()}
        lines.append(
            f"Before each answer was known, its rankings lost {losses['used']:.4g} in {ranking.measure!s}, "
            f"{losses['used'] / max(1, held.queries):.4f} a query; the mean of its weights {losses['mean']:.4g}, the "
            f"current ones {losses['current']:.4g}."
        )
    if isinstance(ranking, PRank):
        thresholds = ", ".join(f"{threshold:.4g}" for threshold in held.more["thresholds"].mean(axis=0))
        lines.append(f"Thresholds of the score between grades: {thresholds}.")
    margin = None
    is_certain = ranking.theorem.symbol is not None and not held.counts.changes
    if ranking.takes != "documents" and is_certain and moved > 0 and held is ranking.model:
        # |w - w₁| / (rate S) is at least the margin, by the proof.
        margin = ranking.certificate(margin=1.0).promises[0].bound / moved
        within = " within its constraints" if ranking.model.beginning.constraints else ""
        lost = ", at least what its current weights have lost" if ranking.takes != "clicks" else ""
        lines.append(
            f"Certificate: it has moved the weight {moved:.4g}{lost}, so that no ranker{within} has a margin above "
            f"{margin:.3g} on what it learned."
        )
    return History(state.queries, rounds, updates, moved, with_mean, losses, margin, tuple(lines))


def _standings(model: Tournament, state: Model, leader: Learner) -> str:
    sums, judged = state.more["sums"], float(state.more["judged"][0])
    if isinstance(model, Forgetting):
        names = ["without forgetting", *(f"half-life {half_life:g}" for half_life in model.half_lives)]
        behind = ", ".join(f"{name} {max(0.0, -total):.3g}" for name, total in zip(names, sums, strict=True))
        ranks = names[state.members.index(leader)]
        return (
            f"Copies that forget, and how far each is behind in {model.compared_by()!s}, at most {model.lag:g}: "
            f"{behind}; the next query is ranked by {ranks}, which is shown."
        )
    pairs = zip(state.members, sums, strict=True)
    shown = ", ".join(f"{member.name} {total / max(1.0, judged):.4f}" for member, total in pairs)
    return f"A tournament by {model.measure!s}: {shown}; the next query is ranked by {leader.name}, which is shown."
