"""Print whether a model may go live, and why."""

import math
from typing import TYPE_CHECKING, Any

from perceptrank.cli.terminal.streams import say
from perceptrank.cli.terminal.tables import is_wide, plain, print_rows

if TYPE_CHECKING:
    from perceptrank.evaluation.differences import Difference
    from perceptrank.evaluation.evaluation import Evaluation

_NO, _UNDECIDED = 3, 4
_MOST_SLICES = 20


def exit_code(answer: str) -> int:
    """Return the exit status of an answer, which is not that of any error."""
    return {"yes": 0, "no": _NO}.get(answer, _UNDECIDED)


def show_decision(result: "Evaluation", *, by: str | None, n_worst: int) -> None:
    """Print means, differences, slices, the queries that lost most, and the verdict last, where it is seen."""
    percent = f"{result.confidence * 100:g}% interval"
    means = [
        {"model": name} | {str(one): plain(result.mean(name, one)) for one in result.measures} for name in result.traces
    ]
    _print(means, f"{len(result.traces)} models on {len(result):,} held-out queries")
    rows = [
        {"model": one.model, "measure": one.measure, **_columns(one, percent), **_counts(one)}
        for one in result.differences
    ]
    _print(rows, f"Differences to {result.incumbent}; their intervals hold all at once")
    if result.slices:
        _show_slices(result, by or "", percent)
    for name in result.challengers if n_worst else ():
        _show_worst(result, name, n_worst)
    say(result.verdict)


def _print(rows: list[dict[str, Any]], title: str) -> None:
    print_rows(rows, title)


def _columns(one: "Difference", percent: str) -> dict[str, Any]:
    interval = "few queries" if one.is_small else f"{one.low:+.4f} to {one.high:+.4f}"
    return {"difference": "-" if math.isnan(one.difference) else f"{one.difference:+.4f}", percent: interval}


def _counts(one: "Difference") -> dict[str, Any]:
    counts: dict[str, Any] = {"better": one.n_better, "worse": one.n_worse}
    return counts | ({"queries that count": one.n_queries} if is_wide() else {})


def _show_slices(result: "Evaluation", by: str, percent: str) -> None:
    rows = [
        {"slice": one.label, "queries": one.n_queries, "model": each.model, **_columns(each, percent)}
        for one in result.slices[:_MOST_SLICES]
        for each in one.differences
    ]
    _print(rows, f"{result.measures[0]} by {by}; the intervals of all slices hold at once")
    if (left := len(result.slices) - _MOST_SLICES) > 0:
        say(f"{left:,} smaller slices are not shown; --json and --page have more")


def _show_worst(result: "Evaluation", name: str, n: int) -> None:
    from perceptrank.evaluation.decision_page import document_name

    measure = str(result.measures[0])
    changes = result.worst(n, model=name)
    if not changes:
        say(f"{name}: no query lost in {measure}")
    for one in changes:
        rows = [
            {
                "document": document_name(each.docid, each.row),
                "grade": f"{each.grade:g}",
                "old place": each.old_place,
                "new place": each.new_place,
            }
            for each in one.documents
        ]
        _print(rows, f"{name}, query {one.qid}: {measure} {one.old:.4f} to {one.new:.4f} ({one.difference:+.4f})")
