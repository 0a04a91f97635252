"""Logs of clicks: User Behavior Insights against `polars.read_ndjson` of the same files, and memory.

python benchmarks/click_logs.py [--impressions 50000] [--repeats 3] [--json]

Impressions of ten documents, each with an impression event, one in ten clicked; queries have what they returned. Memory
is that of a process of its own.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
from ratios import best_of, row, show

import perceptrank as pr

PEAK = """
import sys
import perceptrank as pr

blocks = pr.scan_clicks(sys.argv[1], sys.argv[2], report=lambda report: None)
assert sum(len(block) for block in blocks) == int(sys.argv[3])
with open("/proc/self/status") as lines:
    print(next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmHWM")))
"""


def write_log(folder: Path, n_impressions: int) -> tuple[Path, Path]:
    """Write events and queries, in the order of time."""
    rng = np.random.default_rng(0)
    paths = folder / "ubi_events.ndjson", folder / "ubi_queries.ndjson"
    now = datetime(2026, 1, 1, tzinfo=UTC)
    with open(paths[0], "w", encoding="ascii") as events, open(paths[1], "w", encoding="ascii") as queries:
        for _ in range(n_impressions):
            now += timedelta(milliseconds=int(rng.integers(2000)))
            ids = [rng.bytes(16).hex() for _ in range(3)]
            common = {
                "application": "shop",
                "query_id": ids[0],
                "client_id": ids[1],
                "user_query": f"query {rng.integers(1000)}",
                "timestamp": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            }
            documents = [f"B{number:09d}" for number in rng.choice(100_000, 10, replace=False)]
            clicked = np.flatnonzero(rng.random(10) < 0.1).tolist()
            queries.write(json.dumps(common | {"query_attributes": {}, "query_response_hit_ids": documents}) + "\n")
            for action, place in [*(("impression", k) for k in range(10)), *(("click", k) for k in clicked)]:
                target = {"object_id": documents[place], "object_id_field": "product_id", "name": "a product"}
                attributes = {"object": target, "position": {"ordinal": place + 1}}
                own = {"action_name": action, "session_id": ids[2], "message": None, "event_attributes": attributes}
                events.write(json.dumps(common | own) + "\n")
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--impressions", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="perceptrank-") as name:
        paths = write_log(Path(name), arguments.impressions)
        size = sum(path.stat().st_size for path in paths) / 1e6
        assert len(pr.read_clicks(*paths)) == arguments.impressions
        polars, reading, scanning = best_of(
            arguments.repeats,
            lambda: [pl.read_ndjson(path) for path in paths],
            lambda: pr.read_clicks(*paths),
            lambda: sum(len(block) for block in pr.scan_clicks(*paths)),
        )
        print(f"{size:.0f} MB; polars: {size / polars:,.0f} MB/s, read_clicks: {size / reading:,.0f}", file=sys.stderr)
        start = time.process_time()
        for path in paths:
            pl.read_ndjson(path)
        middle = time.process_time()
        pr.read_clicks(*paths)
        cpu = (time.process_time() - middle) / (middle - start)
        command = [sys.executable, "-c", PEAK, *paths, str(arguments.impressions)]
        peak = float(subprocess.run(command, capture_output=True, check=True).stdout)
    rows = [
        row(
            "read_clicks of User Behavior Insights, time against polars.read_ndjson", reading / polars, "<= 3", reading
        ),
        row("read_clicks of the same, time of the processor against polars.read_ndjson", cpu, "<= 3", None),
        row("scan_clicks of the same, time against polars.read_ndjson", scanning / polars, "<= 5", scanning),
        row(f"scan_clicks of {size:.0f} MB, peak memory of the process", peak, "<= 600 MB", None, " MB"),
    ]
    show(rows, as_json=arguments.json)


if __name__ == "__main__":
    main()
