"""Times as ratios, measured side by side, and a table of them.

Where the environment variable BENCHMARK_HISTORY names a folder, as in `make bench`, the figures are also kept there,
with the commit that they are of; `history.py` draws them.
"""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path


def best_of(repeats: int, *functions: Callable[[], object]) -> list[float]:
    """Shortest time of each function; they take turns, so that all see the same machine."""
    best = [float("inf")] * len(functions)
    for _ in range(repeats + 1):  # the first round compiles and warms up
        for place, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[place] = min(best[place], time.perf_counter() - start)
    return best


def row(what: str, ratio: float, bar: str, seconds: float | None, unit: str = "x") -> dict[str, object]:
    return {"what": what, "ratio": round(ratio, 2), "unit": unit, "bar": bar, "seconds": seconds}


def keep(folder: Path, rows: list[dict[str, object]]) -> None:
    """Write figures with the script, the commit and the machine that they are of."""
    here = Path(__file__).parent
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=10"], cwd=here, capture_output=True, text=True, check=False
    )
    now = datetime.now(UTC)
    record = {
        "script": Path(sys.argv[0]).stem,
        "commit": described.stdout.strip() or "unknown",
        "date": now.isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "rows": rows,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{now:%Y%m%dT%H%M%S}-{record['script']}.json").write_text(json.dumps(record, indent=1) + "\n")


def show(rows: list[dict[str, object]], *, as_json: bool) -> None:
    if folder := os.environ.get("BENCHMARK_HISTORY"):
        keep(Path(folder), rows)
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    width = max(len(str(one["what"])) for one in rows)
    print(f"{'what':{width}}  {'measured':>10}  {'bar':>9}  {'time':>12}")
    for one in rows:
        found = f"{one['ratio']}{one.get('unit', 'x')}"
        seconds = one["seconds"]
        shown = f"{seconds * 1e6:,.1f} us" if isinstance(seconds, float) else ""
        print(f"{one['what']:{width}}  {found:>10}  {one['bar']:>9}  {shown:>12}")
