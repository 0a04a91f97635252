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
            "settings": ", ".join(kind.parameter_names),
        }
        for name, kind in sorted(algorithms().items())
    ]
    show(rows, title="Learners, for --algorithm", as_json=as_json)
