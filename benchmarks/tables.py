"""Tables: CSV of a million rows and 50 features into a stream, beside the readers of polars, DuckDB and pyarrow.

python benchmarks/tables.py [--rows 1000000] [--repeats 3] [--json]

All read the same file in turn, and times are the shortest; the others end with a frame, `read_table` with the features
as one matrix, the queries grouped and every value checked. CPU times, of all threads, are printed too: they tell more
on a machine that is busy.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import polars
import pyarrow.csv
from ratios import row, show

import perceptrank as pr

FEATURES, DOCUMENTS_PER_QUERY = 50, 20


def write_table(path: Path, n_rows: int) -> None:
    rng = np.random.default_rng(0)
    columns: dict[str, object] = {
        "query": [f"query {i // DOCUMENTS_PER_QUERY}" for i in range(n_rows)],
        "docid": [f"d{i}" for i in rng.integers(0, 10**7, n_rows)],
        "grade": rng.integers(0, 5, n_rows),
    }
    columns |= {f"feature {j}": np.round(rng.normal(size=n_rows), 6) for j in range(FEATURES)}
    polars.DataFrame(columns).write_csv(path)


def best_times(repeats: int, functions: dict[str, Callable[[], object]]) -> dict[str, tuple[float, float]]:
    """Shortest wall and CPU time of each function; they take turns."""
    best = dict.fromkeys(functions, (float("inf"), float("inf")))
    for _ in range(repeats + 1):
        for name, function in functions.items():
            wall, cpu = time.perf_counter(), time.process_time()
            function()
            found = time.perf_counter() - wall, time.process_time() - cpu
            best[name] = min(best[name][0], found[0]), min(best[name][1], found[1])
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write_table(path, options.rows)
        readers: dict[str, Callable[[], object]] = {
            "polars": lambda: polars.read_csv(path),
            "read_table": lambda: pr.read_table(path),
            "scan_table": lambda: sum(len(block) for block in pr.scan_table(path)),
            "pyarrow": lambda: pyarrow.csv.read_csv(path),
            "DuckDB": lambda: duckdb.sql(f"select * from read_csv('{path}')").to_arrow_table(),
        }
        times = best_times(options.repeats, readers)
        size = path.stat().st_size / 1e6
    for name, (wall, cpu) in times.items():
        print(f"{name}: {wall:.2f} s, {size / wall:,.0f} MB/s, CPU time {cpu:.2f} s", file=sys.stderr)
    (polars_wall, polars_cpu), (wall, cpu) = times["polars"], times["read_table"]
    rows = [
        row("read_table, time against polars.read_csv alone", wall / polars_wall, "<= 1.4", wall),
        row("read_table, CPU time against polars.read_csv alone", cpu / polars_cpu, "<= 1.5", cpu),
        row("scan_table, CPU time against polars.read_csv alone", times["scan_table"][1] / polars_cpu, "<= 1.5", None),
    ]
    show(rows, as_json=options.json)


if __name__ == "__main__":
    main()
