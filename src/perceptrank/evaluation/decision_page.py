"""An evaluation of several rankers as HTML: a page, and a summary for notebooks."""

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from perceptrank.evaluation.decision import Decision
from perceptrank.evaluation.differences import Difference
from perceptrank.evaluation.html_page import Cell, Section, html_page, number, table
from perceptrank.evaluation.worst import QueryChange
from perceptrank.io.names import printable

if TYPE_CHECKING:
    from perceptrank.evaluation.evaluation import Evaluation

_MOST_SLICES = 50
_WIDTH, _HEIGHT = 240, 18
_PROMISE = (
    "The intervals are about the mean over all queries of the kind that these are a sample of: in about {percent} of "
    "100 such samples, every interval of a table holds the difference that it is about. Queries are taken for "
    "independent of each other. What the intervals do not cover: grades that are wrong, or that favour documents which "
    "the incumbent has shown; queries of another season or market; and what users will do."
)


def decision_page(result: "Evaluation", title: str, by: str = "") -> str:
    """Format an evaluation as one self-contained page."""
    sections = [Section("differences", "Differences", _differences(result))]
    if result.slices:
        sections.append(Section("slices", printable(f"Slices by {by}") if by else "Slices", _slices(result)))
    if any(result._worst[name, result.measures[0]].changes for name in result.challengers):
        sections.append(Section("worst", "Queries that lost most", _worst(result)))
    promise = _PROMISE.format(percent=f"{result.confidence * 100:g}")
    about = f"<p>{_text(result.rule)}</p><p>{promise}</p>"
    sections.append(Section("rule", "The rule, and what the intervals promise", about))
    return html_page(title, _verdicts(result.decisions), _means(result), sections)


def summary_html(result: "Evaluation") -> str:
    """Format the verdict and the differences without a style, for notebooks."""
    return _verdicts(result.decisions) + _difference_table(result.differences, None)


def _text(value: Any) -> str:
    return escape(printable(str(value)))


def _verdicts(decisions: Iterable[Decision]) -> str:
    found = []
    for one in decisions:
        word, _, rest = printable(one.sentence).partition(": ")
        found.append(f'<p class="verdict {one.answer}"><b>{escape(word)}:</b> {escape(rest)}</p>')
    return "".join(found)


def _means(result: "Evaluation") -> str:
    rows: list[list[str | Cell]] = [
        [printable(name), *(number(f"{result.mean(name, one):.4f}") for one in result.measures)]
        for name in result.traces
    ]
    headings: list[str | Cell] = ["model", *(Cell(str(one), True) for one in result.measures)]
    caption = f"Means over {len(result):,} held-out queries; the first model is the one that is live."
    return table(headings, rows, caption)


def _differences(result: "Evaluation") -> str:
    before = (
        f"<p>Mean of a challenger minus that of {_text(result.incumbent)}, on the same queries, with simultaneous "
        f"{result.confidence * 100:g} % intervals.</p>"
    )
    return before + _difference_table(result.differences, result.margin)


def _difference_table(found: list[Difference], margin: float | None) -> str:
    """Format differences; drawn if a margin is given."""
    headings: list[str | Cell] = [
        "model",
        "measure",
        Cell("difference", True),
        "interval",
        *([] if margin is None else [""]),
        *(Cell(one, True) for one in ("old", "new", "queries", "better", "worse")),
    ]
    scale = _scale(found)
    rows: list[list[str | Cell]] = [
        [
            printable(one.model),
            one.measure,
            number(signed(one.difference), is_best=one.low > 0 or one.high < 0),
            interval_text(one),
            *([] if margin is None else [Cell("", html=drawn_interval(one, scale, margin))]),
            number(f"{one.old:.4f}"),
            number(f"{one.new:.4f}"),
            number(f"{one.n_queries:,}"),
            number(f"{one.n_better:,}"),
            number(f"{one.n_worse:,}"),
        ]
        for one in found
    ]
    return table(headings, rows)


def _slices(result: "Evaluation") -> str:
    shown = result.slices[:_MOST_SLICES]
    found = [each for one in shown for each in one.differences]
    scale = _scale(found)
    several = len(result.challengers) > 1
    rows: list[list[str | Cell]] = [
        [
            printable(one.label),
            *([printable(each.model)] if several else []),
            number(f"{one.n_queries:,}"),
            number(signed(each.difference), is_best=each.low > 0 or each.high < 0),
            interval_text(each),
            Cell("", html=drawn_interval(each, scale, result.margin)),
            number(f"{each.old:.4f}"),
            number(f"{each.new:.4f}"),
        ]
        for one in shown
        for each in one.differences
    ]
    headings: list[str | Cell] = [
        "slice",
        *(["model"] if several else []),
        Cell("queries", True),
        Cell("difference", True),
        "interval",
        "",
        Cell("old", True),
        Cell("new", True),
    ]
    left = (
        f" {len(result.slices) - _MOST_SLICES:,} smaller slices are not shown."
        if len(shown) < len(result.slices)
        else ""
    )
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
        parts += [_query(one, measure, is_open=k == 0) for k, one in enumerate(changes)]
    return "<p>Documents among the first places by either model, in the order of the incumbent.</p>" + "".join(parts)


def _query(change: QueryChange, measure: str, *, is_open: bool) -> str:
    rows: list[list[str | Cell]] = [
        [
            printable(document_name(one.docid, one.row)),
            number(f"{one.grade:g}"),
            number(str(one.old_place)),
            number(str(one.new_place)),
            Cell("", html=_move(one.old_place - one.new_place, one.grade)),
        ]
        for one in change.documents
    ]
    headings: list[str | Cell] = [
        "document",
        *(Cell(one, True) for one in ("grade", "old place", "new place")),
        "moved",
    ]
    values = f"{escape(measure)} {change.old:.4f} → {change.new:.4f} ({signed(change.difference)})"
    opened = " open" if is_open else ""
    return (
        f'<details class="query"{opened}><summary><b>{_text(change.qid)}</b>: {values}</summary>'
        f"{table(headings, rows)}</details>"
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

    Examples
    --------
    >>> signed(0.01234), signed(-0.5), signed(float("nan"))
    ('+0.0123', '−0.5000', '–')
    """
    return "–" if np.isnan(value) else f"{value:+.4f}".replace("-", "−")


def interval_text(one: Difference) -> str:
    """Write an interval, or why there is none."""
    return "few queries" if np.isnan(one.low) else f"{signed(one.low)} to {signed(one.high)}"


def _scale(found: Iterable[Difference]) -> float:
    """Return the largest end of an interval, which all are drawn on the scale of."""
    ends = [abs(end) for one in found for end in (one.low, one.high) if np.isfinite(end)]
    return max(ends, default=0.0) or 1.0


def drawn_interval(one: Difference, scale: float, margin: float) -> str:
    """Draw an interval as a line with its middle, and where 0 and the bar are."""

    def x(value: float) -> str:
        return f"{_WIDTH / 2 + value / scale * (_WIDTH / 2 - 4):.1f}"

    middle = _HEIGHT / 2
    parts = [f'<line class="zero" x1="{x(0)}" x2="{x(0)}" y1="0" y2="{_HEIGHT}"/>']
    if 0 < margin <= scale:
        parts.append(f'<line class="bar" x1="{x(-margin)}" x2="{x(-margin)}" y1="0" y2="{_HEIGHT}"/>')
    kind = ""
    if np.isfinite(one.low):
        kind = " up" if one.low > 0 else " down" if one.high < 0 else ""
        parts.append(f'<line class="span" x1="{x(one.low)}" x2="{x(one.high)}" y1="{middle}" y2="{middle}"/>')
    if np.isfinite(one.difference) and abs(one.difference) <= scale:
        parts.append(f'<circle class="mean" cx="{x(one.difference)}" cy="{middle}" r="4"/>')
    about = escape(interval_text(one))
    return (
        f'<svg class="interval{kind}" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{about}">{"".join(parts)}</svg>'
    )
