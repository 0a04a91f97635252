"""An evaluation of several rankers as HTML: a page, and a summary for notebooks."""

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from perceptrank.evaluation.decision import NOT_CHECKED, Decision
from perceptrank.evaluation.differences import Difference
from perceptrank.evaluation.html_page import Cell, Section, html_page, number, table
from perceptrank.evaluation.off_policy import describe_policies
from perceptrank.evaluation.worst import QueryChange
from perceptrank.io.names import printable

if TYPE_CHECKING:
    from perceptrank.evaluation.evaluation import Evaluation

_MOST_SLICES = 50
_WIDTH, _HEIGHT = 240, 18
_PROMISE = (
    "The intervals are about the mean over all queries of the kind that these are a sample of: in about {percent} of "
    "100 such samples, every interval of a table holds the difference that it is about. Queries are taken for "
    "independent of each other. What the intervals do not cover: {risk}; queries of another season or market; and what "
    "users will do."
)
_RISKS = {
    "queries": "grades that are wrong, or that favour documents which the incumbent has shown",
    "impressions": "propensities that are wrong, documents that the log does not show, and clicks that are regretted",
}


def decision_page(result: "Evaluation", title: str, by: str) -> str:
    """Format an evaluation as one self-contained page."""
    before = (
        f"<p>Mean of a challenger minus that of {_text(result.incumbent)}, on the same queries, with simultaneous "
        f"{result.confidence * 100:g} % intervals.</p>"
    )
    table_of_all = _difference_table(result.differences, result.margin)
    sections = [Section("differences", "Differences", before + table_of_all)]
    if result.slices:
        sections.append(Section("slices", printable(f"Slices by {by}") if by else "Slices", _slices(result)))
    if any(result._worst[name, result.measures[0]].changes for name in result.challengers):
        sections.append(Section("worst", "Queries that lost most", _worst(result)))
    promise = _PROMISE.format(percent=f"{result.confidence * 100:g}", risk=_RISKS[result.unit])
    used = f"<p>{_text(describe_policies(result.policies).capitalize())}.</p>" if result.policies else ""
    about = f"<p>{_text(result.rule)}</p><p>{promise}</p>{used}"
    sections.append(Section("rule", "The rule, and what the intervals promise", about))
    return html_page(title, _verdicts(result.decisions), _means(result), sections)


def summary_html(result: "Evaluation") -> str:
    """Format the verdict and the differences without a style, for notebooks."""
    return _verdicts(result.decisions) + _difference_table(result.differences, None)


def _text(value: Any) -> str:
    return escape(printable(str(value)))


def _verdicts(decisions: Iterable[Decision]) -> str:
    paragraphs = []
    for decision in decisions:
        word, _, rest = printable(decision.sentence).partition(": ")
        paragraphs.append(f'<p class="verdict {decision.answer}"><b>{escape(word)}:</b> {escape(rest)}</p>')
    return "".join(paragraphs)


def _means(result: "Evaluation") -> str:
    rows: list[list[str | Cell]] = [
        [printable(name), *(number(f"{result.mean(name, measure):.4f}") for measure in result.measures)]
        for name in result.traces
    ]
    caption = f"Means over {len(result):,} {result.unit}; {NOT_CHECKED}. The first model is the one that is live."
    return table(["model", *map(str, result.measures)], rows, caption)


def _difference_table(rows: list[Difference], margin: float | None) -> str:
    """Format differences; drawn if a margin is given."""
    scale = _scale(rows)
    cells: list[list[str | Cell]] = [
        [
            printable(row.model),
            row.measure,
            *_difference_cells(row, scale, margin),
            *(number(f"{n:,}") for n in (row.n_queries, row.n_better, row.n_worse)),
        ]
        for row in rows
    ]
    drawn = [] if margin is None else [""]
    headings = ["model", "measure", "difference", "interval", *drawn, "old", "new", "queries", "better", "worse"]
    return table(headings, cells)


def _difference_cells(row: Difference, scale: float, margin: float | None) -> list[str | Cell]:
    is_certain = row.low > 0 or row.high < 0
    cells: list[str | Cell] = [number(signed(row.difference), is_best=is_certain), interval_text(row)]
    if margin is not None:
        cells.append(Cell("", html=drawn_interval(row, scale, margin)))
    return [*cells, number(f"{row.old:.4f}"), number(f"{row.new:.4f}")]


def _slices(result: "Evaluation") -> str:
    shown = result.slices[:_MOST_SLICES]
    scale = _scale(row for part in shown for row in part.differences)
    several = len(result.challengers) > 1
    rows: list[list[str | Cell]] = [
        [
            printable(part.label),
            *([printable(row.model)] if several else []),
            number(f"{part.n_queries:,}"),
            *_difference_cells(row, scale, result.margin),
        ]
        for part in shown
        for row in part.differences
    ]
    headings = ["slice", *(["model"] if several else []), result.unit, "difference", "interval", "", "old", "new"]
    n_left = len(result.slices) - len(shown)
    left = f" {n_left:,} smaller slices are not shown." if n_left else ""
    return (
        f"<p>Differences in {escape(str(result.measures[0]))}. The intervals of all slices "
        "hold at once, so they are wider than one alone would be; a slice with fewer than 30 queries has none."
        f"{left}</p>{table(headings, rows)}"
    )


def _worst(result: "Evaluation") -> str:
    measure = str(result.measures[0])
    parts = []
    for name in result.challengers:
        changes = result._worst[name, result.measures[0]].changes
        if len(result.challengers) > 1:
            parts.append(f"<h3>{_text(name)}</h3>")
        kind = "grade" if result.unit == "queries" else "click"
        parts += [_query(change, measure, kind, is_open=k == 0) for k, change in enumerate(changes)]
    return "<p>Documents among the first places by either model, in the order of the incumbent.</p>" + "".join(parts)


def _query(change: QueryChange, measure: str, kind: str, *, is_open: bool) -> str:
    rows: list[list[str | Cell]] = [
        [
            printable(document_name(moved.docid, moved.row)),
            *(number(text) for text in (f"{moved.grade:g}", str(moved.old_place), str(moved.new_place))),
            Cell("", html=_move(moved.old_place - moved.new_place, moved.grade)),
        ]
        for moved in change.documents
    ]
    values = f"{escape(measure)} {change.old:.4f} → {change.new:.4f} ({signed(change.difference)})"
    opened = " open" if is_open else ""
    return (
        f'<details class="query"{opened}><summary><b>{_text(change.qid)}</b>: {values}</summary>'
        f"{table(['document', kind, 'old place', 'new place', 'moved'], rows)}</details>"
    )


def _move(up: int, grade: float) -> str:
    """Write by how many places a document moved, in colour if it is relevant."""
    if up == 0:
        return ""
    kind = "soft" if grade == 0 else "up" if up > 0 else "down"
    return f'<span class="{kind}">{"▲" if up > 0 else "▼"} {abs(up)}</span>'


def document_name(docid: str | None, row: int) -> str:
    """Return what a document is called: its id, or the row where it stands."""
    return f"row {row}" if docid is None else docid


def signed(value: float) -> str:
    """Write a difference, with its sign.

    >>> signed(0.01234), signed(-0.5), signed(float("nan"))
    ('+0.0123', '−0.5000', '–')
    """
    return "–" if np.isnan(value) else f"{value:+.4f}".replace("-", "−")


def interval_text(row: Difference) -> str:
    """Write an interval, or why there is none."""
    return "few queries" if np.isnan(row.low) else f"{signed(row.low)} to {signed(row.high)}"


def _scale(rows: Iterable[Difference]) -> float:
    """Return the largest end of an interval, which all are drawn on the scale of."""
    ends = [abs(end) for row in rows for end in (row.low, row.high) if np.isfinite(end)]
    return max(ends, default=0.0) or 1.0


def drawn_interval(row: Difference, scale: float, margin: float) -> str:
    """Draw an interval as a line with its middle, and where 0 and the bar are."""

    def x(value: float) -> str:
        return f"{_WIDTH / 2 + value / scale * (_WIDTH / 2 - 4):.1f}"

    middle = _HEIGHT / 2
    parts = [f'<line class="zero" x1="{x(0)}" x2="{x(0)}" y1="0" y2="{_HEIGHT}"/>']
    if 0 < margin <= scale:
        parts.append(f'<line class="bar" x1="{x(-margin)}" x2="{x(-margin)}" y1="0" y2="{_HEIGHT}"/>')
    kind = ""
    if np.isfinite(row.low):
        kind = " up" if row.low > 0 else " down" if row.high < 0 else ""
        parts.append(f'<line class="span" x1="{x(row.low)}" x2="{x(row.high)}" y1="{middle}" y2="{middle}"/>')
    if np.isfinite(row.difference) and abs(row.difference) <= scale:
        parts.append(f'<circle class="mean" cx="{x(row.difference)}" cy="{middle}" r="4"/>')
    return (
        f'<svg class="interval{kind}" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(interval_text(row))}">{"".join(parts)}</svg>'
    )
