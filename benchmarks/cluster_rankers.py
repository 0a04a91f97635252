"""The rankers of LightGBM and XGBoost for Dask beside ours, on the same partitions: time, and a worker that is killed.

python benchmarks/scaling.py others [--gigabytes 0.4] [--timeout 120]

Each run is a process of its own, with a cluster of two processes of one thread, so that one that hangs can be ended.
Partitions are made by the workers from the same eight stores. The time is that of `fit` (five epochs of ours, ten
trees of the others), reading included; the worker is killed after a part of it.
"""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import perceptrank as pr

N_STORES, N_TEST, N_TURNS = 8, 500, 2
NAMES = ("perceptrank", "lightgbm", "xgboost")


def others(gigabytes: float, folder: str | None, timeout: float, parts: list[float]) -> None:
    """Print what each does, alone and with a killed worker."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        per_query = pr.mslr_shaped(100, seed=0).X.nbytes / 100
        whole = pr.mslr_shaped(round(gigabytes * 1e9 / per_query) + N_TEST, seed=0)
        stream = whole[N_TEST:]
        pr.write_store(whole[:N_TEST], Path(place) / "test.store")
        for n in range(N_STORES):
            pr.write_store(stream[n::N_STORES], Path(place) / f"{n}.store")
        print(f"{stream.X.nbytes / 1e9:.2f} GB, {len(stream):,} queries in {N_STORES} stores", flush=True)
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in NAMES}
        for _ in range(N_TURNS):  # in turns, so that whatever else the machine does is spread over all of them
            for name in NAMES:
                found[name].append(_run(name, place, 0.0, timeout))
        for name in NAMES:
            alone = min(found[name], key=lambda one: one.get("seconds", np.inf))
            print(f"{name}: {_told(alone)}", flush=True)
            for part in parts:
                delay, killed = part * alone.get("seconds", 1.0), {"is_late": True}
                while killed.get("is_late"):  # the kill came after the end
                    killed, delay = _run(name, place, delay, timeout), delay / 2
                same = killed.get("digest") == alone.get("digest")
                end = f", {'the same' if same else 'another'} model" if "digest" in killed else ""
                print(f"  a worker killed after {part:.0%} of the time: {_told(killed)}{end}", flush=True)


def _told(found: dict[str, Any]) -> str:
    if "seconds" in found:
        return f"{found['seconds']:.1f} s, NDCG@10 {found['ndcg']:.4f}"
    return str(found["problem"])


def _run(name: str, folder: str, kill_after: float, timeout: float) -> dict[str, Any]:
    # Without this folder in the path, which has files of the same names as packages.
    command = [sys.executable, "-P", __file__, name, folder, str(kill_after)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        printed, said = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"problem": f"nothing after {timeout:.0f} s, ended"}
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)  # its workers with it
            child.communicate()
    if child.returncode != 0:
        last = [line for line in said.splitlines() if re.match(r"[\w.]+(Error|Exception|KilledWorker)\b", line)]
        return {"problem": f"an error: {last[-1][:160] if last else child.returncode}"}
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def _fit(name: str, client: Any, paths: list[str]) -> tuple[Any, bytes]:
    """Return a function that scores features, and the model."""
    if name == "perceptrank":
        ranker, _ = pr.distributed.learn(pr.ListwisePerceptron(), paths, client, epochs=5)
        return ranker.predict, json.dumps(ranker.as_document()).encode()
    import dask.array as da
    from dask import delayed

    stores = [pr.open_store(path) for path in paths]
    shapes = [(one.n_documents, one.n_features) for one in stores]
    first = np.cumsum([0] + [one.n_queries for one in stores])
    made = [delayed(_load)(path, int(number)) for path, number in zip(paths, first, strict=False)]
    X = da.concatenate([da.from_delayed(one[0], shape, np.float32) for one, shape in zip(made, shapes, strict=True)])
    y, qid = (
        da.concatenate([da.from_delayed(one[k], shape[:1], np.int64) for one, shape in zip(made, shapes, strict=True)])
        for k in (1, 2)
    )
    if name == "lightgbm":
        import lightgbm

        sizes = [da.from_delayed(one[3], (len(store),), np.int64) for one, store in zip(made, stores, strict=True)]
        forest = lightgbm.DaskLGBMRanker(n_estimators=10, client=client, seed=0, verbose=-1)
        forest.fit(X, y, group=da.concatenate(sizes))
        return forest.to_local().predict, forest.booster_.model_to_string().encode()
    import xgboost.dask

    # By default it sorts the data into one partition per query, which takes minutes for some hundred queries; these
    # partitions have whole queries, and stay.
    trees = xgboost.dask.DaskXGBRanker(n_estimators=10, tree_method="hist", random_state=0, allow_group_split=True)
    trees.client = client
    trees.fit(X, y, qid=qid)
    booster = trees.get_booster()
    return booster.inplace_predict, bytes(booster.save_raw("ubj"))


def _load(path: str, first: int) -> tuple[Any, ...]:
    import numpy as np  # here, as the function travels without what is around it

    from perceptrank.io.store import open_store

    store = open_store(path)
    sizes = np.diff(store.offsets)
    return np.array(store.X), store.relevance.astype(np.int64), first + np.repeat(np.arange(len(sizes)), sizes), sizes


def main() -> None:
    name, folder, kill_after = sys.argv[1], sys.argv[2], float(sys.argv[3])
    import distributed

    paths = [os.path.join(folder, f"{n}.store") for n in range(N_STORES)]
    with pr.distributed.local_cluster(2) as cluster, distributed.Client(cluster) as client:
        _fit(name, client, paths[:2])  # workers import what they need
        pids = list(client.run(os.getpid).values())
        killer = threading.Timer(kill_after, os.kill, (pids[0], signal.SIGKILL))
        if kill_after > 0:
            killer.start()
        start = time.perf_counter()
        predict, model = _fit(name, client, paths)
        seconds, is_late = time.perf_counter() - start, killer.is_alive()
        killer.cancel()
    test = pr.open_store(os.path.join(folder, "test.store"))
    values = pr.parse("ndcg@10").per_query(np.asarray(predict(np.array(test.X)), float), test.relevance, test.offsets)
    found = {"seconds": seconds, "ndcg": float(np.nanmean(values)), "is_late": is_late}
    found["digest"] = hashlib.sha256(model).hexdigest()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
