"""The command `warm-up`."""

import io
import tempfile
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

import perceptrank as pr
from perceptrank.cli.making import make_learner
from perceptrank.cli.options.shared import DEFAULT_RECORD, AsJson
from perceptrank.cli.terminal.tables import announce_compiling, show

_LETOR = b"1 qid:1 1:0.5 2:1\n0 qid:1 1:1 2:0\n" * 100  # shorter ones are read as a whole
_TABLE = "qid,grade,x\n" + 200_000 * "1,1,0\n"  # smaller ones are not read by compiled code
_GRADES, _QUERIES = [2.0, 0.0, 1.0, 0.0], [2, 2]


def warm_up(
    algorithm: Annotated[
        list[str] | None, typer.Option(help="Learner (bagging:slam wraps slam); may be repeated. By default listwise.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Compile all learners.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compile ahead what learning, measuring, reading and the service need, so that the first use does not have to.

    For images of containers, and for continuous integration: machine code is kept in the cache, which the folder
    that PERCEPTRANK_CACHE_DIR names holds.

    Example: perceptrank warm-up --algorithm listwise --algorithm slam
    """
    import numpy as np

    from perceptrank.kernels.cache_folder import CacheWarning, cache_state, reasons_uncached
    from perceptrank.kernels.compiled import on_compile
    from perceptrank.learners.learning import policies_of, takes_clicks

    announce_compiling()
    if everything and algorithm:
        raise ValueError("give --all or --algorithm, not both")
    names = sorted(pr.algorithms()) if everything else list(dict.fromkeys(algorithm or ["listwise"]))
    learners = {name: make_learner(name, {}) for name in names}
    state, n_before = cache_state(), len(reasons_uncached())

    def check_kept() -> None:
        """Raise at once if what is compiled is lost with this process."""
        if reasons := [state.reason] if state.folder is None else reasons_uncached()[n_before:]:
            raise ValueError(f"compiled kernels cannot be kept: {reasons[0]}")

    check_kept()
    warnings.simplefilter("ignore", CacheWarning)  # it becomes an error
    compiled: list[str] = []
    stop = on_compile(compiled.append)
    start = time.perf_counter()
    rows = []
    try:
        pr.read_letor(io.BytesIO(_LETOR))
        check_kept()
        with tempfile.TemporaryDirectory() as parent:
            (table := Path(parent, "table.csv")).write_text(_TABLE)
            pr.read_table(table)
        for name, learner in learners.items():
            before, begin = len(compiled), time.perf_counter()
            for dtype in (np.float32, np.float64):
                features = np.arange(8, dtype=dtype).reshape(4, 2)
                stream = pr.QueryStream.from_arrays(features, _GRADES, group=_QUERIES)
                if takes_clicks(learner):
                    policy = "plackett-luce" if "plackett-luce" in policies_of(learner) else "fair-pairs"
                    stream = pr.simulate_clicks(stream, pr.clicks.user("perfect"), policy=policy)
                learner.learn(stream, DEFAULT_RECORD)
                learner.scores(stream)
            if find_spec("msgspec") is not None:
                from perceptrank.serve.replay import Current
                from perceptrank.serve.warm_up import warm_up as warm_up_service

                for started in (make_learner(name, {}), learner):
                    warm_up_service(Current.of(started))
            check_kept()
            seconds = round(time.perf_counter() - begin, 3)
            rows.append({"algorithm": name, "compiled": len(compiled) - before, "seconds": seconds})
    finally:
        stop()
    seconds = round(time.perf_counter() - start, 3)
    extra = {"kernels": compiled, "seconds": seconds, "cache": str(state.folder)}
    show(rows, title=f"{len(compiled)} kernels compiled in {seconds:.1f} s", as_json=as_json, extra=extra)
    if not as_json:
        print(f"cache: {state.folder}")
