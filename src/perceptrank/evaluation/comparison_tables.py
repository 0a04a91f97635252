"""Tables of compared learners and of models: CSV, and LaTeX with booktabs."""

import csv
import io
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perceptrank.evaluation.comparison import Comparison, Standing
    from perceptrank.evaluation.differences import Difference
    from perceptrank.evaluation.evaluation import Evaluation
    from perceptrank.measures import Measure

_MOST_IN_A_COLUMN = 4
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def csv_table(result: "Comparison", confidence: float, seed: int) -> str:
    """Return one row per learner, set and measure; numbers in full."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(
        ["letter", "name", "set", "measure", "mean", "spread", "low", "high", "beats"]
        + [f"seed {seed}" for seed in result.seeds]
    )
    for on in result.sets:
        for measure in result.measures:
            for own in result.standings(measure, on, confidence=confidence, seed=seed):
                numbers = map(_number, [own.mean, own.spread, own.low, own.high])
                beaten, per_order = " ".join(marks(result, own)), map(_number, own.per_order)
                rows.writerow([own.letter, own.name, on, measure, *numbers, beaten, *per_order])
    return text.getvalue()


def latex_table(result: "Comparison", confidence: float, seed: int) -> str:
    """Return a table environment, with a caption that says what is in it."""
    columns = [(on, measure) for on in result.sets for measure in result.measures]
    standings = {
        (on, measure): {own.name: own for own in result.standings(measure, on, confidence=confidence, seed=seed)}
        for on, measure in columns
    }
    best = {key: f"{max(own.mean for own in rows.values()):.4f}" for key, rows in standings.items()}
    n_measures = len(result.measures)
    heads = {"test": "held out", "progressive": "progressive"}
    spans = " & ".join(rf"\multicolumn{{{n_measures}}}{{c}}{{{heads[on]}}}" for on in result.sets)
    rules = " ".join(
        rf"\cmidrule(lr){{{3 + k * n_measures}-{2 + (k + 1) * n_measures}}}" for k in range(len(result.sets))
    )
    head = " & ".join([" ", "learner", *(escaped(heads_of(result)[measure]) for _, measure in columns)])
    lines = []
    for name, letter in result.letters.items():
        own = [(standings[key].get(name), best[key]) for key in columns]
        cells = ["--" if standing is None else _cell(result, standing, best=mean) for standing, mean in own]
        lines.append(" & ".join([letter, escaped(name), *cells]))
    heads_above = [rf" & & {spans} \\", rules, rf"{head} \\"]
    return _environment("comparison", _caption(result, confidence), f"ll{'l' * len(columns)}", heads_above, lines)


def decision_table(result: "Evaluation") -> str:
    """Return a table environment of models on the same queries, and their differences to the first of them."""
    measures, percent = result.measures, f"{100 * result.confidence:g}\\%"
    differences = {(each.model, each.measure): each for each in result.differences}
    best = {measure: f"{max(result.mean(name, measure) for name in result.traces):.4f}" for measure in measures}
    count = f"{len(result):,}".replace(",", "{,}")
    caption = (
        f"Means on {count} {result.unit}, and differences to {escaped(result.incumbent)} with {percent} intervals that "
        "hold for all rows and measures at once (paired bootstrap). Bold: the best mean, and differences whose "
        "interval excludes 0."
    )
    lines = []
    for name in result.traces:
        cells = [escaped(name)]
        for measure in measures:
            mean = f"{result.mean(name, measure):.4f}"
            cells += [rf"\textbf{{{mean}}}" if mean == best[measure] else mean]
            cells += [_difference(differences.get((name, str(measure))))]
        lines.append(" & ".join(cells))
    head = " & ".join(["model", *(f"{escaped(capitals(measure))} & difference" for measure in measures)])
    return _environment("evaluation", caption, f"l{'ll' * len(measures)}", [rf"{head} \\"], lines)


def _environment(label: str, caption: str, columns: str, head: list[str], rows: list[str]) -> str:
    # More columns of numbers than two do not fit into a column of text.
    table = "table" if len(columns) <= _MOST_IN_A_COLUMN else "table*"
    lines = [
        r"% needs \usepackage{booktabs}",
        rf"\begin{{{table}}}",
        r"\centering\small\setlength{\tabcolsep}{3pt}",
        rf"\caption{{{caption}}}",
        rf"\label{{tab:{label}}}\smallskip",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *head,
        r"\midrule",
        *(rf"{row} \\" for row in rows),
    ]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", rf"\end{{{table}}}", ""])


def _difference(own: "Difference | None") -> str:
    if own is None:
        return "--"
    shown = f"{own.difference:+.4f}"
    shown = rf"$\mathbf{{{shown}}}$" if own.low > 0 or own.high < 0 else f"${shown}$"
    return shown + ("" if own.is_small else rf" {{\scriptsize$[{own.low:+.4f}, {own.high:+.4f}]$}}")


def capitals(measure: "Measure") -> str:
    """Return the name of a measure as papers write it.

    >>> from perceptrank.measures import parse
    >>> capitals(parse("ndcg@10"))
    'NDCG@10'
    """
    name, colon, options = str(measure).partition(":")
    return name.upper() + colon + options


def heads_of(result: "Comparison") -> dict["Measure", str]:
    """Return the heads of columns: the names of measures, with what they leave open if it differs."""
    full = {measure: capitals(measure) for measure in result.measures}
    names = {measure: name.partition(":")[0] for measure, name in full.items()}
    return names if len(set(names.values())) == len(names) else full


def _caption(result: "Comparison", confidence: float) -> str:
    n = len(result.seeds)
    orders = f"{n} random orders" if n > 1 else "one random order" if n else "one pass"
    test = f" and {result.n_test:,} held-out queries" if result.n_test else ""
    spread = r" $\pm$ standard deviation over orders" if n > 1 else ""
    resampled = r"queries and orders, Student's $t$ for orders" if n > 1 else "queries"
    marks = (
        f"Superscripts: learners that are significantly worse (paired bootstrap of {resampled}, simultaneous "
        rf"for all pairs and measures, {100 * confidence:g}\%)."
    )
    first = f"Mean{spread}: {orders} of {result.n_queries:,} queries{test}.".replace(",", "{,}")
    progressive = "Progressive: each query as it was ranked before it was learned from." if result.traces else ""
    if 0 < len(result.traces) < len(result.names):
        progressive += " Learners without a progressive mean are fitted to all queries at once."
    if result.tuned:
        progressive += " Candidates were chosen on validation queries."
    parts = [first, progressive.strip(), *map(escaped, _conventions(result)), marks, "Bold: the best mean."]
    return " ".join(filter(None, parts))


def _conventions(result: "Comparison") -> list[str]:
    """Say which queries count if not all do, and what sets measures apart from their defaults."""
    sizes = {"test": (result.n_test, "held-out queries"), "progressive": (result.n_queries, "queries of the orders")}
    partial = {}
    for measure, head in heads_of(result).items():
        counts = {on: result.n_counted(measure, on) for on in result.sets}
        if any(n < sizes[on][0] for on, n in counts.items()):
            partial[f"{head}: "] = " and ".join(f"{n} {sizes[on][1]}" for on, n in counts.items())
    if len(partial) == len(result.measures) and len(set(partial.values())) == 1:
        partial = {"": next(iter(partial.values()))}
    sentences = [f"{head}{counts} count, the others having nothing to rank." for head, counts in partial.items()]
    options = {head: str(measure).partition(":")[2].replace(",", ", ") for measure, head in heads_of(result).items()}
    return sentences + [f"{head}: {text}." for head, text in options.items() if text and ":" not in head]


def _cell(result: "Comparison", standing: "Standing", best: str) -> str:
    mean = f"{standing.mean:.4f}"
    mean = rf"\textbf{{{mean}}}" if mean == best else mean
    beaten = joined(marks(result, standing))
    raised = rf"$^{{\mathrm{{{beaten}}}}}$" if beaten else ""
    return mean + raised + (rf" {{\scriptsize$\pm$ {standing.spread:.4f}}}" if standing.spread is not None else "")


def marks(result: "Comparison", standing: "Standing") -> list[str]:
    """Return the letters of the learners that a learner beats."""
    letters = result.letters
    return [letters[name] for name in standing.beats]


def joined(letters: list[str]) -> str:
    """Join letters, with commas if some are of two characters.

    >>> joined(["a", "b"]), joined(["b", "aa"])
    ('ab', 'b,aa')
    """
    return ("," if any(len(letter) > 1 for letter in letters) else "").join(letters)


def escaped(text: str) -> str:
    r"""Return text, in one line, in which no character means anything to LaTeX, or another one in its old fonts.

    >>> escaped("a_b 50% {c}"), escaped("<")
    ('a\\_b 50\\% \\{c\\}', '\\textless{}')
    """
    return "".join(_SPECIAL.get(character, character) for character in " ".join(text.split()))


def _number(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else repr(value)
