"""Tables of tuned learning rates and their results."""

from html import escape

import numpy as np

from perceptrank.evaluation.digits import three_digits
from perceptrank.evaluation.html_tables import Cell, number, spread, table
from perceptrank.kernels.arrays import Floats
from perceptrank.paper.curves import join_names
from perceptrank.paper.reproduction import StreamResult
from perceptrank.paper.tuning import Tuned, first_tenth

_PER = 1000  # queries that losses are given for
_ABOUT = (  # said of the simulated stream, which comes first
    "The paper tunes each rate in hindsight, by the best result over the whole stream. Without hindsight, a rate is "
    "tuned on the first tenth of the stream, separately for every seed (ties go to the rate nearest to the learner’s "
    f"default), and evaluated on the rest. On this stream means are close to 1, so what is lost in {_PER:,} queries is "
    "shown. "
)


def tuning_tables(stream: StreamResult) -> str:
    """Format the tables of tuned contenders, one per measure."""
    tenth, is_lost = first_tenth(stream.trials.source.n_rounds), stream.simulated is not None
    text = f"<h3>Tuning the learning rate</h3><p>{_ABOUT if is_lost else ''}Its first tenth has {tenth:,} queries.</p>"
    for measure, tuned in stream.tuned.items():
        text += _tuning_table(tuned, measure, is_lost=is_lost)
    edge = [one.contender.label for tuned in stream.tuned.values() for one in tuned if one.is_at_the_edge]
    if edge:
        names = join_names(list(dict.fromkeys(edge)))
        text += f"<p class='soft'>* The best rate of {escape(names)} is at the edge of the grid.</p>"
    return text


def _tuning_table(tuned: list[Tuned], measure: str, *, is_lost: bool) -> str:
    names = ("whole", "rest", "honest_rest")
    best = [max(float(getattr(one, name).mean()) for one in tuned) for name in names]
    rows: list[list[str | Cell]] = []
    for one in tuned:
        rate = "" if not one.contender.has_rate else f"{one.hindsight.rate:.3g}{'*' if one.is_at_the_edge else ''}"
        cells = [
            _lost(getattr(one, name), top) if is_lost else spread(getattr(one, name), top)
            for name, top in zip(names, best, strict=True)
        ]
        chosen = ""
        if one.honest_rates is not None:
            low, high = min(one.honest_rates), max(one.honest_rates)
            chosen = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        rows.append([one.contender.label, number(rate), *cells, number(chosen)])
    headings: list[str | Cell] = [
        f"(1 − {measure.upper()}) × {_PER:,}" if is_lost else measure.upper(),
        Cell("best rate", True),
        Cell("hindsight: all queries", True),
        Cell("hindsight: after first tenth", True),
        Cell("tuned on first tenth: after it", True),
        Cell("tuned rates", True),
    ]
    return table(headings, rows)


def _lost(means: Floats, best: float) -> Cell:
    lost = _PER * (1 - means)
    mean = three_digits(_tidy(float(lost.mean())))
    deviation = f" ± {three_digits(_tidy(float(np.std(lost, ddof=1))))}" if len(lost) > 1 else ""
    return number(mean + deviation, is_best=mean == three_digits(_tidy(_PER * (1 - best))))


def _tidy(value: float) -> float:
    """Remove what rounding has left of 0."""
    return value if abs(value) > 1e-9 else 0.0
