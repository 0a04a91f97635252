"""Tables of learners over several orders: CSV, and LaTeX with booktabs."""

import csv
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perceptrank.evaluation.order_comparison import OrderComparison, OrderStanding

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{one: f"\\{one}" for one in "&%$#_{}"},
}


def csv_table(result: "OrderComparison", confidence: float, seed: int) -> str:
    """Return one row per learner, set and measure; numbers in full."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(
        ["letter", "name", "set", "measure", "mean", "spread", "low", "high", "beats"]
        + [f"seed {one}" for one in result.seeds]
    )
    for on in result.sets:
        for measure in result.measures:
            for one in result.standings(measure, on, confidence=confidence, seed=seed):
                numbers = [one.mean, one.spread, one.low, one.high]
                rows.writerow(
                    [one.letter, one.name, on, measure, *map(_number, numbers), " ".join(marks(result, one))]
                    + [_number(value) for value in one.per_order]
                )
    return text.getvalue()


def latex_table(result: "OrderComparison", confidence: float, seed: int) -> str:
    """Return a table environment, with a caption that says what is in it."""
    columns = [(on, measure) for on in result.sets for measure in result.measures]
    found = {
        (on, measure): {one.name: one for one in result.standings(measure, on, confidence=confidence, seed=seed)}
        for on, measure in columns
    }
    best = {key: max(one.mean for one in rows.values()) for key, rows in found.items()}
    n_measures = len(result.measures)
    heads = {"test": "held-out queries", "progressive": "before learning from each query"}
    spans = " & ".join(rf"\multicolumn{{{n_measures}}}{{c}}{{{heads[on]}}}" for on in result.sets)
    rules = " ".join(
        rf"\cmidrule(lr){{{3 + k * n_measures}-{2 + (k + 1) * n_measures}}}" for k in range(len(result.sets))
    )
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_caption(result, confidence)}}}",
        r"\label{tab:comparison}",
        rf"\begin{{tabular}}{{ll{'l' * len(columns)}}}",
        r"\toprule",
        rf" & & {spans} \\",
        rules,
        " & ".join([" ", "learner", *(escaped(str(measure)) for _, measure in columns)]) + r" \\",
        r"\midrule",
    ]
    for name, letter in result.letters.items():
        cells = [_cell(result, found[key][name], is_best=found[key][name].mean == best[key]) for key in columns]
        lines.append(" & ".join([letter, escaped(name), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _caption(result: "OrderComparison", confidence: float) -> str:
    n = len(result.seeds)
    orders = f"{n} random orders" if n > 1 else "one random order"
    test = f" and {result.n_test:,} held-out queries".replace(",", "{,}") if result.n_test else ""
    spread = r" $\pm$ standard deviation over orders" if n > 1 else ""
    return (
        f"Mean{spread}: {orders} of {result.n_queries:,} queries".replace(",", "{,}")
        + test
        + ". Superscripts: learners that are significantly worse (paired bootstrap of queries and orders, simultaneous "
        rf"for all pairs and measures, {100 * confidence:g}\%). Bold: the best mean."
    )


def _cell(result: "OrderComparison", one: "OrderStanding", *, is_best: bool) -> str:
    mean = f"{one.mean:.4f}"
    mean = rf"\textbf{{{mean}}}" if is_best else mean
    beaten = marks(result, one)
    raised = rf"$^{{\mathrm{{{joined(beaten)}}}}}$" if beaten else ""
    return mean + raised + (rf" {{\scriptsize$\pm$ {one.spread:.4f}}}" if one.spread == one.spread else "")


def marks(result: "OrderComparison", one: "OrderStanding") -> list[str]:
    """Return the letters of the learners that one beats."""
    letters = result.letters
    return [letters[name] for name in one.beats]


def joined(letters: list[str]) -> str:
    """Join letters, with commas if some are of two characters.

    Examples
    --------
    >>> joined(["a", "b"]), joined(["b", "aa"])
    ('ab', 'b,aa')
    """
    return ("," if any(len(one) > 1 for one in letters) else "").join(letters)


def escaped(text: str) -> str:
    r"""Return text in which no character means anything to LaTeX.

    Examples
    --------
    >>> escaped("a_b 50% {c}")
    'a\\_b 50\\% \\{c\\}'
    """
    return "".join(_SPECIAL.get(one, one) for one in text)


def _number(value: float) -> str:
    return "" if value != value else repr(value)  # noqa: PLR0124
