"""The command `evaluate`."""

import time
from typing import Any

import perceptrank as pr
from perceptrank.cli.options import DEFAULT_RECORD, AsJson, Model, Record
from perceptrank.cli.progress import ProgressBar
from perceptrank.cli.reading import Reading
from perceptrank.cli.tables import interval, plain, show


def evaluate(*, model: Model, record: Record = None, reading: Reading, as_json: AsJson = False) -> None:
    """Measure a model on held-out queries, without learning from them.

    Example: perceptrank evaluate model.json test.txt.gz --record ndcg@10 --record ap
    """
    start = time.perf_counter()
    ranker = pr.load(model)
    with ProgressBar("evaluating") as bar:
        trace = pr.evaluate(ranker, reading.blocks(bar), record or DEFAULT_RECORD)
    rows: list[dict[str, Any]] = []
    for measure in trace.measures:
        mean = plain(trace.mean(measure))
        low = high = None
        if mean is not None:
            (standing,) = pr.Comparison({"model": trace}).standings(measure)
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
