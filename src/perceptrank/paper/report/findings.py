"""Summary of the results: a sentence for each finding, with its number, and an overview of the real data sets."""

from html import escape

import numpy as np

from perceptrank.evaluation.html_page import Cell, spread, table
from perceptrank.evaluation.plots import three_digits
from perceptrank.kernels.arrays import Floats
from perceptrank.paper.contenders import CONTENDERS, RATES
from perceptrank.paper.curves import join_names
from perceptrank.paper.reproduction import Reproduction, StreamResult, mean_of_folds
from perceptrank.paper.simulated import BoundCheck


def findings(result: Reproduction) -> str:
    """List the findings, each with its number, and compare learners on real data sets if there are any."""
    items = [*_on_losses(result.streams[0]), *_on_bounds(result.streams[0]), _on_rates(result)]
    real = result.streams[1:]
    if real:
        items.append(_on_real(real))
    listed = "".join(f"<li><b>{escape(number)}</b> {escape(sentence)}</li>" for number, sentence in items)
    return f'<ul class="findings">{listed}</ul>{_overview(result) if real else ""}'


def _on_losses(stream: StreamResult) -> list[tuple[str, str]]:
    assert stream.simulated is not None
    checks = stream.simulated.bound_checks
    stopped = sorted((check for check in checks if check.has_stopped), key=lambda check: max(check.last_losses))
    losing = sorted((check for check in checks if not check.has_stopped), key=lambda check: -_late_loss(check))
    items = []
    if stopped:
        others = [f"{check.contender.label} after {max(check.last_losses):,}" for check in stopped[1:]]
        runs = f"in {len(stream.trials.seeds)} runs" if len(stream.trials.seeds) > 1 else "in its run"
        last = max(stopped[0].last_losses)
        enough = "query was enough" if last == 1 else "queries were enough"
        text = f"{enough} for {stopped[0].contender.label}, which lost nothing later {runs}"
        items.append((f"{last:,}", f"{text}; {join_names(others)}." if others else f"{text}."))
    if losing:
        others = [f"{three_digits(_late_loss(check))} by {check.contender.label}" for check in losing[1:]]
        text = f"was lost by {losing[0].contender.label} in the second half of the stream alone"
        items.append((three_digits(_late_loss(losing[0])), f"{text}; {join_names(others)}." if others else f"{text}."))
    return items


def _late_loss(check: BoundCheck) -> float:
    """Return the largest loss of a seed in the second half of the stream."""
    return float(check.second_half.max())


def _on_bounds(stream: StreamResult) -> list[tuple[str, str]]:
    assert stream.simulated is not None
    proved = [check for check in stream.simulated.bound_checks if check.bounds is not None]
    kept = [check for check in proved if check.holds]
    text = "learners with a theorem stayed below their bound for every seed"
    if len(kept) < len(proved):
        text += "; a violated bound is a bug, please report it"
    closest = max(proved, key=lambda check: float(_parts_of_bound(check).max()))
    seed = int(_parts_of_bound(closest).argmax())
    lost, bound = float(closest.losses[seed]), (closest.bounds or [])[seed]
    most = f"{closest.contender.label}, {three_digits(lost)} of {three_digits(bound)}"
    return [
        (f"{len(kept)} of {len(proved)}", f"{text}."),
        (f"{three_digits(100 * lost / bound)} %", f"of its bound is the most that any of them lost: {most}."),
    ]


def _parts_of_bound(check: BoundCheck) -> Floats:
    """Return the part of its bound that was lost, for each seed."""
    parts: Floats = check.losses / np.array(check.bounds)
    return parts


def _on_rates(result: Reproduction) -> tuple[str, str]:
    bound = [each.label for name, each in CONTENDERS.items() if any(stream.depends[name] for stream in result.streams)]
    free = [each.label for each in CONTENDERS.values() if each.label not in bound]
    text = f"learners rank alike at all {len(RATES)} learning rates from {RATES[0]:.1g} to {RATES[-1]:g}"
    text += f": {join_names(free)}" if free else ""
    return f"{len(free)} of {len(CONTENDERS)}", text + (f". {join_names(bound)} do not." if bound else ".")


def _on_real(streams: list[StreamResult]) -> tuple[str, str]:
    ahead = []
    for stream in streams:
        honest = {tuned.contender.name: float(tuned.honest_rest.mean()) for tuned in stream.tuned["ndcg@10"]}
        if honest.pop("listwise") > max(honest.values()):
            ahead.append(stream.trials.source.name)
    text = (
        "real streams have the untuned listwise perceptron first in NDCG@10, others with rates tuned on the first tenth"
    )
    return f"{len(ahead)} of {len(streams)}", text + (f": {join_names(ahead)}." if ahead else ".")


def _overview(result: Reproduction) -> str:
    rows: list[list[str | Cell]] = []
    for stream in result.streams[1:]:
        honest = {tuned.contender.name: tuned.honest_rest for tuned in stream.tuned["ndcg@10"]}
        rows.append([stream.trials.source.name, *_spreads([honest[learner] for learner in CONTENDERS])])
    for name, streams in result.folds.items():
        means = [mean_of_folds(streams, "ndcg@10", learner) for learner in CONTENDERS]
        rows.append([f"{name}, mean of {len(streams)} folds", *_spreads(means)])
    headings = ["stream", *(contender.label for contender in CONTENDERS.values())]
    shown = {"seeds": len(result.streams[1].trials.seeds) > 1, "folds": bool(result.folds)}
    spreads = "; of a mean of folds, over ".join(name for name, is_shown in shown.items() if is_shown)
    caption = "Mean NDCG@10 after the first tenth of each stream, rates tuned on that tenth"
    caption += f"; ± one standard deviation over {spreads}" if spreads else ""
    caption += ". Bold: the largest mean."
    return table(headings, rows, caption)


def _spreads(rows: list[Floats]) -> list[Cell]:
    best = max(float(values.mean()) for values in rows)
    return [spread(values, best) for values in rows]
