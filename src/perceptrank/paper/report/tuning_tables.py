"""Tables of tuned learning rates and their results."""

from html import escape

from perceptrank.evaluation.html_tables import Cell, number, spread, table
from perceptrank.paper.report.findings import join_names, n_digits
from perceptrank.paper.reproduction import StreamResult
from perceptrank.paper.tuning import Tuned, first_tenth


def tuning_tables(stream: StreamResult) -> str:
    """Format the tables of tuned contenders, one per measure."""
    tenth = first_tenth(stream.trials.source.n_rounds)
    text = "<h3>Tuning the learning rate</h3>"
    text += (
        "<p>The paper tunes each rate in hindsight, by the best result over the whole stream. Without hindsight, a "
        f"rate is tuned on the first tenth of the stream ({tenth:,} queries), separately for every seed (ties go to "
        "the rate nearest to the learner’s default), and evaluated on the rest. Learners without a rate need no "
        "tuning.</p>"
    )
    for measure, tuned in stream.tuned.items():
        text += _tuning_table(tuned, measure, n_digits(stream))
    edge = [one.contender.label for tuned in stream.tuned.values() for one in tuned if one.is_at_the_edge]
    if edge:
        names = join_names(list(dict.fromkeys(edge)))
        text += f"<p class='soft'>* The best rate of {escape(names)} is at the edge of the grid.</p>"
    return text


def _tuning_table(tuned: list[Tuned], measure: str, digits: int) -> str:
    best = [max(float(getattr(one, name).mean()) for one in tuned) for name in ("whole", "rest", "honest_rest")]
    rows: list[list[str | Cell]] = []
    for one in tuned:
        rate = "–" if not one.contender.has_rate else f"{one.hindsight.rate:.3g}{'*' if one.is_at_the_edge else ''}"
        means = [one.whole, one.rest, one.honest_rest]
        cells = [spread(mean, top, digits) for mean, top in zip(means, best, strict=True)]
        chosen = "–"
        if one.honest_rates is not None:
            low, high = min(one.honest_rates), max(one.honest_rates)
            chosen = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        rows.append([one.contender.label, number(rate), *cells, number(chosen)])
    headings: list[str | Cell] = [
        measure.upper(),
        Cell("best rate", True),
        Cell("hindsight: all queries", True),
        Cell("hindsight: after first tenth", True),
        Cell("tuned on first tenth: after it", True),
        Cell("tuned rates", True),
    ]
    return table(headings, rows)
