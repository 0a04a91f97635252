"""A model on held-out files."""

import time
from typing import Any

from perceptrank.cli.progress import ProgressBar
from perceptrank.cli.reading import Reading
from perceptrank.cli.tables import interval, plain, show
from perceptrank.evaluation.comparison import Comparison
from perceptrank.evaluation.holdout import evaluate
from perceptrank.learners.registry import load


def run(model: str, reading: Reading, measures: list[str], *, as_json: bool) -> None:
    """Print the mean of each measure, with an interval from resampling queries."""
    start = time.perf_counter()
    ranker = load(model)
    with ProgressBar("evaluating") as bar:
        trace = evaluate(ranker, reading.blocks(bar), measures)
    rows: list[dict[str, Any]] = []
    for measure in trace.measures:
        mean = plain(trace.mean(measure))
        low = high = None
        if mean is not None:
            (standing,) = Comparison({"model": trace}).standings(measure)
            low, high = plain(standing.low), plain(standing.high)
        counted = int((trace.values(measure) >= 0).sum())
        rows.append({"measure": str(measure), "mean": mean, "low": low, "high": high, "counted": counted})
    extra = {"model": model, "queries": len(trace), "seconds": round(time.perf_counter() - start, 3)}
    shown = [
        {
            "measure": row["measure"],
            "mean": row["mean"],
            "95% interval": interval(row["low"], row["high"]),
            "queries that count": row["counted"],
        }
        for row in rows
    ]
    show(rows, title=f"{model} on {len(trace):,} queries", as_json=as_json, extra=extra, shown=shown)
