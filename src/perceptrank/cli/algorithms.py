"""The command `algorithms`."""

import perceptrank as pr
from perceptrank.cli.options.shared import AsJson
from perceptrank.cli.terminal.tables import print_text, show


def algorithms(as_json: AsJson = False) -> None:
    """List the learners.

    Example: perceptrank algorithms
    """
    rows, from_clicks = _rows(pr.algorithms()), _rows(pr.algorithms(clicks=True))
    around = [
        {
            "name": name,
            "class": kind.__name__,
            "what it makes of a learner": _first_line(kind),
            "settings": ", ".join(setting for setting in kind.parameter_names if setting != "learner"),
        }
        for name, kind in sorted(pr.wrappers().items())
    ]
    extra = {"clicks": from_clicks, "wrappers": around}
    show(rows, title="Learners, for --algorithm", as_json=as_json, extra=extra, shown=_shown(rows))
    if not as_json:
        title = "Learners that learn from logs of clicks, for --algorithm"
        show(from_clicks, title=title, as_json=False, shown=_shown(from_clicks))
        shown = [{key: row[key] for key in row if key != "class"} for row in around]
        show(around, title="To put around a learner, as in bagging:slam", as_json=False, shown=shown)
        print_text(
            "m documents, d features, g grades, N members, s documents in a buffer, B in a budget, k "
            "documents shown. "
            "D, R: largest distance and norm of documents, γ: margin. --json has classes and settings."
        )


def _rows(kinds: "dict[str, type[pr.Learner]]") -> list[dict[str, str]]:
    return [
        {
            "name": name,
            "class": kind.__name__,
            "what it does": _first_line(kind),
            "learns from": kind.takes,
            "cost of a query": kind.cost,
            "promise": str(kind().theorem),
            "settings": ", ".join(kind.parameter_names),
        }
        for name, kind in sorted(kinds.items())
    ]


def _shown(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{key: row[key] for key in row if key not in ("class", "settings")} for row in rows]


def _first_line(kind: "type[pr.Learner]") -> str:
    return (kind.__doc__ or "").strip().partition("\n")[0]
