"""Times as ratios, measured side by side, and a table of them."""

import json
import time
from collections.abc import Callable


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


def show(rows: list[dict[str, object]], *, as_json: bool) -> None:
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
