"""The command `algorithms`."""

import perceptrank as pr
from perceptrank.cli.options.shared import AsJson
from perceptrank.cli.terminal.tables import print_text, show


def algorithms(as_json: AsJson = False) -> None:
    """List the learners.

    Example: perceptrank algorithms
    """
    rows = [
        {
            "name": name,
            "class": kind.__name__,
            "what it does": _first_line(kind),
            "learns from": kind.takes,
            "cost of a query": kind.cost,
            "promise": str(kind().theorem),
            "settings": ", ".join(kind.parameter_names),
        }
        for name, kind in sorted(pr.algorithms().items())
    ]
    around = [
        {
            "name": name,
            "class": kind.__name__,
            "what it makes of a learner": _first_line(kind),
            "settings": ", ".join(setting for setting in kind.parameter_names if setting != "learner"),
        }
        for name, kind in sorted(pr.wrappers().items())
    ]
    shown = [{key: row[key] for key in row if key not in ("class", "settings")} for row in rows]
    show(rows, title="Learners, for --algorithm", as_json=as_json, extra={"wrappers": around}, shown=shown)
    if not as_json:
        shown = [{key: row[key] for key in row if key != "class"} for row in around]
        show(around, title="To put around a learner, as in bagging:slam", as_json=False, shown=shown)
        print_text(
            "m documents, d features, g grades, N members, s documents in a buffer, B in a budget. "
            "D, R: largest distance and norm of documents, γ: margin. --json has classes and settings."
        )


def _first_line(kind: "type[pr.Learner]") -> str:
    return (kind.__doc__ or "").strip().partition("\n")[0]
