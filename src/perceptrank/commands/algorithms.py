"""Which learners there are."""

from perceptrank.commands.tables import show
from perceptrank.learners import algorithms


def run(*, as_json: bool) -> None:
    """Print names, classes, settings, and the first line of what each says about itself."""
    rows = [
        {
            "name": name,
            "class": kind.__name__,
            "what it does": (kind.__doc__ or "").strip().splitlines()[0],
            "learns from": kind.takes,
            "cost of a query": kind.cost,
            "promise": kind.promise,
            "settings": ", ".join(kind.parameter_names),
        }
        for name, kind in sorted(algorithms().items())
    ]
    shown = [{key: row[key] for key in row if key not in ("class", "settings")} for row in rows]
    show(rows, title="Learners, for --algorithm", as_json=as_json, shown=shown)
    if not as_json:
        print(
            "m documents, d features, g grades, N members, s documents in a buffer. D, R: largest distance and norm of "
            "documents, γ: margin. --json has classes and settings."
        )
