"""Summary of the results: sentences and an overview table."""

from html import escape

from perceptrank.evaluation.html_tables import Cell, spread, table
from perceptrank.paper.contenders import CONTENDERS, RATES
from perceptrank.paper.reproduction import Reproduction, StreamResult, mean_of_folds


def findings(result: Reproduction) -> str:
    """Summarise the results in sentences and one table."""
    items = [_on_losses(result.streams[0]), _on_bounds(result.streams[0]), _on_rates(result)]
    if len(result.streams) > 1:
        items.append(_on_real(result.streams[1:]))
    listed = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<section><h2>Findings</h2><ul>{listed}</ul>{_overview(result)}</section>"


def _on_losses(stream: StreamResult) -> str:
    assert stream.simulated is not None
    stopped, losing = [], []
    for one in stream.simulated.bound_checks:
        if one.second_half.any():
            losing.append(f"{one.label} ({one.second_half.max():.2f})")
        else:
            stopped.append(f"{one.label} (last loss at query {max(one.last_losses):,})")
    text = (
        f"On the separable stream of {stream.trials.source.n_rounds:,} queries, the following had no loss in the "
        f"second half for any seed: {join_names(stopped)}."
    )
    return text + (f" Loss in the second half (largest over seeds): {join_names(losing)}." if losing else "")


def _on_bounds(stream: StreamResult) -> str:
    assert stream.simulated is not None
    kept = [one.holds for one in stream.simulated.bound_checks if one.holds is not None]
    seeds = len(stream.trials.seeds)
    text = f"{sum(kept)} of the {len(kept)} learners with a theorem stayed below their bound for all seeds ({seeds})."
    return text if all(kept) else f"{text} A violated bound is a bug; please report it."


def _on_rates(result: Reproduction) -> str:
    free = [one.label for name, one in CONTENDERS.items() if not any(stream.depends[name] for stream in result.streams)]
    bound = [one.label for name, one in CONTENDERS.items() if any(stream.depends[name] for stream in result.streams)]
    return (
        f"At {len(RATES)} learning rates from {RATES[0]:.1g} to {RATES[-1]:g}, the rankings of {join_names(free)} are "
        f"the same at every rate; those of {join_names(bound)} are not."
    )


def _on_real(streams: list[StreamResult]) -> str:
    ahead = []
    for stream in streams:
        honest = {one.contender.name: one.honest_rest.mean() for one in stream.tuned["ndcg@10"]}
        if max(honest, key=lambda name: float(honest[name])) == "listwise":
            ahead.append(stream.trials.source.name)
    on = join_names(ahead) if ahead else "none"
    return (
        f"With rates tuned on the first tenth of each stream, the untuned listwise perceptron has the best mean "
        f"NDCG@10 on {len(ahead)} of {len(streams)} real streams ({on}). The standard deviation over seeds is given "
        "with each mean."
    )


def _overview(result: Reproduction) -> str:
    names = list(CONTENDERS)
    rows: list[list[str | Cell]] = []
    for stream in result.streams:
        honest = {one.contender.name: one.honest_rest for one in stream.tuned["ndcg@10"]}
        best = max(float(values.mean()) for values in honest.values())
        means = [spread(honest[name], best, n_digits(stream)) for name in names]
        rows.append([stream.trials.source.name, *means])
    for name, streams in result.folds.items():
        over = {learner: mean_of_folds(streams, "ndcg@10", learner) for learner in names}
        best = max(float(values.mean()) for values in over.values())
        means = [spread(over[learner], best, n_digits(streams[0])) for learner in names]
        rows.append([f"{name}, mean of {len(streams)} folds", *means])
    headings: list[str | Cell] = ["stream", *(Cell(CONTENDERS[name].label, True) for name in names)]
    caption = (
        "Mean NDCG@10 after the first tenth of each stream, rates tuned on that tenth; ± one standard deviation "
        "over seeds, of a mean of folds over folds. Bold: the largest mean, to the digits shown."
    )
    return table(headings, rows, caption)


def join_names(names: list[str]) -> str:
    """Join names as in English prose."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names) or "none"


def n_digits(stream: StreamResult) -> int:
    """Return the number of decimals of means; more on the separable stream, where all are close to 1."""
    return 3 if stream.simulated is None else 5
