"""Dask: the same bits as in this process, whatever the partitions, the workers and their fate."""

import os
import re
import signal
import sys
import threading
import time
import types

import numpy as np
import pytest
from support.slow_streams import Deadly, Slow

import perceptrank as pr
from perceptrank.distributed import ClusterError, ShardError, learn

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
pd = pytest.importorskip("pandas")
import dask.array as da
import dask.bag as db
import dask.dataframe as dd

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("default")]  # Dask has warnings of its own


@pytest.fixture(scope="module")
def stream():
    return pr.separable(90, n_features=4, seed=0).stream


@pytest.fixture(scope="module")
def client():
    """A cluster of threads in this process: it starts quickly, and all goes through the scheduler as elsewhere."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def processes():
    """A cluster of two processes, which can be killed: others take their place."""
    with pr.distributed.local_cluster(2) as cluster, distributed.Client(cluster) as made:
        yield made


def shards_of(stream, n):
    return [stream[place::n] for place in range(n)]


def document(learned):
    return learned.ranker.as_document()


@pytest.mark.parametrize("transforms", ["auto", "running"])
def test_the_same_bits_as_in_this_process(client, stream, transforms):
    here = learn(pr.ListwisePerceptron(transforms=transforms), shards_of(stream, 5), epochs=3)
    there = learn(pr.ListwisePerceptron(transforms=transforms), shards_of(stream, 5), client, epochs=3)
    assert document(here) == document(there)
    for one, other in zip(here.traces, there.traces, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a.masses, b.masses)
            assert a.means() == b.means()


@pytest.mark.parametrize("kind", ["stores", "frame"])
def test_trees_are_the_same_on_any_workers_and_after_a_stop(client, tmp_path, kind):
    pytest.importorskip("lightgbm")
    stream = pr.mslr_shaped(90, n_documents=8, n_features=4)
    parts = [tmp_path / f"{n}.store" for n in range(4)]
    for part, path in zip(shards_of(stream, 4), parts, strict=True):
        pr.write_store(part, path)
    if kind == "frame":
        parts = dd.from_pandas(frame_of(stream), npartitions=4, sort=False)

    def trees():
        return pr.WithTrees(n_trees=3, first_fit=20)

    here = learn(trees(), parts, epochs=3)
    assert here.ranker.trees.forest.n_trees == 3
    assert len(here.trace(2)) == 90 - here.ranker.trees.queries < 90
    assert document(learn(trees(), parts, client, epochs=3)) == document(here)
    learn(trees(), parts, client, epochs=1, checkpoint=tmp_path / "kept")
    assert document(learn(trees(), parts, client, epochs=3, checkpoint=tmp_path / "kept")) == document(here)


def test_files(client, stream, tmp_path):
    for n, part in enumerate(shards_of(stream, 3)):
        pr.write_store(part, tmp_path / f"{n}.store")
    files = [tmp_path / f"{n}.store" for n in range(3)]
    here = learn(pr.SlamPerceptron(), files, epochs=2)
    assert document(learn(pr.SlamPerceptron(), files, client, epochs=2)) == document(here)


def test_a_bad_file_names_itself_and_the_worker(client, stream, tmp_path):
    pr.write_letor(stream, tmp_path / "good.txt")
    (tmp_path / "bad.txt").write_text("1 qid:1 1:nonsense\n")
    ranker = pr.SlamPerceptron()
    with pytest.raises(ShardError, match=r"shard 1 \(.*bad.txt\) failed on inproc:.*FormatError: .*bad.txt.*nonsense"):
        learn(ranker, [tmp_path / "good.txt", tmp_path / "bad.txt"], client)
    assert ranker.n_queries == 0


def test_stragglers_do_not_block_forever(client, stream):
    ranker, _ = learn(pr.SlamPerceptron(), [stream])
    before = ranker.as_document()
    with pytest.raises(TimeoutError, match=r"no shard was finished for 1 seconds; not done: shard 1 \(stream 1\) on "):
        learn(ranker, [stream, Slow(stream, 5)], client, timeout=1)
    assert ranker.as_document() == before


def frame_of(stream):
    return stream.to_frame("pandas")


def test_a_frame_is_shuffled_by_queries(client, stream):
    """Queries cut by partitions come together, in the order of the rows, and none is lost."""
    frame = dd.from_pandas(frame_of(stream), npartitions=4, sort=False)
    here = learn(pr.ListwisePerceptron(), frame, epochs=2, measures="ap")
    there = learn(pr.ListwisePerceptron(), frame, client, epochs=2, measures="ap")
    assert document(here) == document(there)
    assert sum(len(one) for one in here.traces[0]) == len(stream)
    assert 1 < len(here.traces[0]) <= 4
    assert here.ranker.n_queries == 2 * len(stream)
    order = {one: place for place, one in enumerate(stream.qids)}
    shards = _shards(frame)
    assert sorted(order[one] for shard in shards for one in shard.qids) == list(range(len(stream)))
    for shard in shards:
        places = [order[one] for one in shard.qids]
        assert places == sorted(places)
        for one, place in zip(shard, places, strict=True):
            np.testing.assert_array_equal(one.X, stream[place : place + 1].X)
            np.testing.assert_array_equal(one.relevance, stream[place : place + 1].relevance)
    plain = pr.ListwisePerceptron()
    assert document(learn(plain, shards, epochs=2, measures="ap"))["state"] == document(here)["state"]


def _shards(frame, **options):
    from perceptrank.distributed.dask_parts import dask_shards

    made = [one.blocks() for one in dask_shards(frame, None, assume_grouped=False, options=options)]
    return [one for one in made if isinstance(one, pr.QueryStream)]


def test_a_frame_that_is_grouped_is_not_shuffled(client, stream):
    parts = [frame_of(one) for one in shards_of(stream, 3)]
    frame = dd.from_delayed([dask.delayed(one) for one in parts])
    learned = learn(pr.SlamPerceptron(), frame, client, assume_grouped=True, epochs=2)
    assert document(learned)["state"] == document(learn(pr.SlamPerceptron(), shards_of(stream, 3), epochs=2))["state"]
    with pytest.raises(ValueError, match=r"query .* is in the partitions 0 and 1: leave out assume_grouped=True"):
        learn(pr.SlamPerceptron(), dd.from_pandas(frame_of(stream), npartitions=4, sort=False), assume_grouped=True)


def frames(parts):
    """A frame of these partitions, whatever they hold."""
    return dd.from_delayed([dask.delayed(one) for one in parts], meta=parts[0].iloc[:0], verify_meta=False)


def cut(stream, **changed):
    """Three partitions that cut queries, with columns changed in the second one."""
    whole = frame_of(stream)
    parts = [whole.iloc[:413], whole.iloc[413:871], whole.iloc[871:]]
    return [parts[0], parts[1].assign(**{name: change(parts[1]) for name, change in changed.items()}), parts[2]]


@pytest.mark.parametrize(
    "changed",
    [
        {"f1": lambda part: part.f1.astype(np.float32).astype(np.float64)},
        {"f1": lambda part: part.f1.astype(np.float32)},
        {"qid": lambda part: part.qid.astype(np.float64)},
        {"qid": lambda part: part.qid.astype(np.int32)},
    ],
)
def test_partitions_of_other_types_and_empty_ones(client, stream, changed):
    """Queries are the same in any type of numbers."""
    parts = cut(stream, **changed)
    learned = learn(pr.ListwisePerceptron(), frames([parts[0], parts[0].iloc[:0], *parts[1:]]), client)
    assert learned.ranker.n_queries == len(stream)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"f1": lambda _: np.nan}, r"shard \d \(partition \d\) failed on .*X must be finite, got NaN .*'f1'"),
        ({"f1": lambda _: "x"}, r"failed on .*could not convert string to float: 'x'"),
        ({"relevance": lambda _: np.nan}, "failed on .*relevance must be finite"),
        ({"qid": lambda _: np.nan}, "failed on .*qid must not be missing"),
        ({"qid": lambda part: part.qid.astype(str)}, r"qid is \w+ in partition 1, but int64 in the frame"),
        ({"query_weight": lambda part: np.arange(len(part))}, "no column|same for all documents|weights"),
    ],
)
def test_partitions_that_are_wrong_say_so(client, stream, changed, message):
    ranker, _ = learn(pr.SlamPerceptron(), [pr.QueryStream.from_frame(frame_of(stream))])
    before = ranker.as_document()
    parts = cut(stream, **changed)
    if "query_weight" in changed:
        parts = [part if "query_weight" in part else part.assign(query_weight=1) for part in parts]
    with pytest.raises(ShardError, match=message):
        learn(ranker, frames(parts), client)
    assert ranker.as_document() == before


def test_queries_of_other_types_are_found_in_two_partitions(stream):
    whole = frame_of(stream)
    parts = [whole.iloc[:410], whole.iloc[410:].assign(qid=whole.iloc[410:].qid.astype(str))]
    with pytest.raises(ValueError, match=r"query '20' is in the partitions 0 and 1"):
        learn(pr.SlamPerceptron(), frames(parts), assume_grouped=True)


def test_features_of_another_width_in_a_later_part(client, stream):
    whole = frame_of(stream)
    parts = [whole.iloc[:400], whole.iloc[400:].assign(more=1.0)]
    with pytest.raises(ValueError, match="shard 1 has 5 features, shard 0 has 4"):
        learn(pr.SlamPerceptron(), frames(parts), client, assume_grouped=True)
    parts = [whole.iloc[:400], whole.iloc[400:][list(reversed(whole.columns))]]
    with pytest.raises(ValueError, match="shard 1 has features of other names"):
        learn(pr.SlamPerceptron(), frames(parts), client, assume_grouped=True)


def test_weights_and_ids_of_documents_come_along(client, stream):
    weights = np.linspace(0.0, 2.0, len(stream))
    weighted = pr.QueryStream(
        stream.X,
        stream.relevance,
        stream.offsets,
        qids=stream.qids,
        docids=[f"d{n}" for n in range(stream.n_documents)],
        query_weights=weights,
    )
    frame = dd.from_pandas(frame_of(weighted), npartitions=4, sort=False)
    shards = _shards(frame)
    order = {one: place for place, one in enumerate(stream.qids)}
    for shard in shards:
        places = [order[one] for one in shard.qids]
        np.testing.assert_array_equal(shard.query_weights, weights[places])
        ids = [f"d{n}" for place in places for n in range(stream.offsets[place], stream.offsets[place + 1])]
        assert list(shard.docids) == ids
    learned = learn(pr.ListwisePerceptron(), frame, client, epochs=2)
    assert document(learned)["state"] == document(learn(pr.ListwisePerceptron(), shards, epochs=2))["state"]
    assert (
        document(learned)["state"]
        != document(
            learn(
                pr.ListwisePerceptron(), _shards(dd.from_pandas(frame_of(stream), npartitions=4, sort=False)), epochs=2
            )
        )["state"]
    )


def test_a_frame_in_memory_is_refused_with_advice(client, stream):
    with pytest.raises(TypeError, match=r"QueryStream.from_frame\(frame\)"):
        learn(pr.SlamPerceptron(), frame_of(stream), client)


def test_a_cluster_has_a_worker():
    with pytest.raises(ValueError, match="n_workers must be"):
        pr.distributed.local_cluster(0)


def test_arrays_are_no_queries(client, stream):
    X, relevance = da.from_array(stream.X), da.from_array(stream.relevance)
    for parts in (X, (X, relevance, relevance)):
        with pytest.raises(TypeError, match=re.escape("to_dask_dataframe()")):
            learn(pr.SlamPerceptron(), parts, client)


def test_bags_and_delayed_streams(client, stream):
    parts = shards_of(stream, 4)
    expected = document(learn(pr.SlamPerceptron(), parts, epochs=2))
    bag = db.from_sequence(parts, npartitions=4)
    assert document(learn(pr.SlamPerceptron(), bag, client, epochs=2)) == expected
    assert document(learn(pr.SlamPerceptron(), [dask.delayed(one) for one in parts], client, epochs=2)) == expected
    assert document(learn(pr.SlamPerceptron(), bag, epochs=2)) == expected
    with pytest.raises(TypeError, match="repartition"):
        learn(pr.SlamPerceptron(), bag, shards=2)


@pytest.fixture(scope="module")
def ranker(stream):
    made = pr.ListwisePerceptron()
    made.learn(pr.QueryStream.from_frame(frame_of(stream)))
    return made


@pytest.fixture(scope="module")
def by_query(stream):
    """Partitions of whole queries, with an index that is not 0, 1, …"""
    parts = [frame_of(stream[n::3]) for n in range(3)]
    parts = [part.set_index(np.arange(len(part)) * 2 + 7) for part in parts]
    return parts, dd.from_delayed([dask.delayed(part) for part in parts], meta=parts[0].iloc[:0])


def test_scores_and_places_of_partitions(ranker, by_query):
    parts, frame = by_query
    made = pr.distributed.predict(ranker, frame, assume_grouped=True)
    assert (made.name, made.dtype, made.npartitions) == ("score", np.float64, 3)
    places = pr.distributed.rank(ranker, frame, assume_grouped=True)
    assert (places.name, places.dtype) == ("place", np.int64)
    for n, part in enumerate(parts):
        stream = pr.QueryStream.from_frame(part)
        found, place = made.partitions[n].compute(), places.partitions[n].compute()
        np.testing.assert_array_equal(found.to_numpy(), ranker.scores(stream))
        assert (found.dtype, found.name) == (np.float64, "score")
        np.testing.assert_array_equal(found.index, part.index)
        for query, rows in zip(stream, np.split(np.arange(len(part)), stream.offsets[1:-1]), strict=True):
            order = ranker.rank(query.X)
            np.testing.assert_array_equal(place.to_numpy()[rows][order], np.arange(1, len(rows) + 1))


def test_measures_of_partitions(ranker, stream):
    frame = dd.from_pandas(frame_of(stream), npartitions=4, sort=False)
    lazily = pr.distributed.evaluate(ranker, frame, ["ndcg@10", "ap"])
    assert list(lazily.columns) == ["qid", "ndcg@10", "ap"]
    made = lazily.compute(scheduler="synchronous").set_index("qid")
    scores = ranker.scores(pr.QueryStream.from_frame(frame_of(stream)))
    expected = pr.parse("ap").per_query(scores, stream.relevance, stream.offsets)
    assert len(made) == len(stream)
    np.testing.assert_array_equal(made.loc[list(stream.qids), "ap"], expected)
    assert lazily.dtypes["ap"] == made.dtypes["ap"] == np.float64


def test_partitions_that_cut_queries_are_refused(ranker, by_query):
    with pytest.raises(ValueError, match="assume_grouped=True"):
        pr.distributed.predict(ranker, by_query[1])
    with pytest.raises(ValueError, match="whole queries"):
        pr.distributed.rank(ranker, by_query[1])
    with pytest.raises(ValueError, match="no column 'query'"):
        pr.distributed.predict(ranker, by_query[1], qid="query", assume_grouped=True)
    plain = pr.SlamPerceptron(transforms=None)
    plain.learn(pr.QueryStream.from_frame(by_query[0][0]))
    assert len(pr.distributed.predict(plain, by_query[1]).compute(scheduler="synchronous")) == 1800


def test_columns_that_are_missing_are_named(stream):
    frame = dd.from_pandas(frame_of(stream).drop(columns="relevance"), npartitions=2)
    with pytest.raises(ValueError, match="no column 'relevance'"):
        learn(pr.SlamPerceptron(), frame)


def test_a_killed_worker_changes_nothing(processes, stream):
    parts = [Slow(one, 0.3) for one in shards_of(stream, 4)]
    assert all(
        name not in one
        for one in processes.run(lambda: dict(os.environ)).values()
        for name in ["MALLOC_TRIM_THRESHOLD_"]
    )
    killed = []

    def kill(progress):
        if progress.epoch == 1 and progress.done == 1:
            address = next(iter(processes.scheduler_info()["workers"]))
            pid = processes.run(os.getpid, workers=[address])[address]
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    expected = learn(pr.ListwisePerceptron(), shards_of(stream, 4), epochs=2)
    learned = learn(pr.ListwisePerceptron(), parts, processes, epochs=2, progress=kill, timeout=120)
    assert len(killed) == 1
    assert document(learned) == document(expected)
    assert [len(epoch) for epoch in learned.traces] == [4, 4]


def test_a_class_that_workers_have_not_is_an_error(processes, stream, monkeypatch):
    """It does not take the workers along, as what cannot be read in messages of Dask's own does."""
    module = types.ModuleType("only_here")
    exec("class Here(list): pass", module.__dict__)
    monkeypatch.setitem(sys.modules, "only_here", module)
    parts = [stream, module.Here([stream])]
    with pytest.raises(ShardError, match=r"stream 1\) failed on tcp:.*No module named 'only_here': the worker must be"):
        learn(pr.SlamPerceptron(), parts, processes, timeout=120)
    assert learn(pr.SlamPerceptron(), [stream, stream], processes, timeout=120).ranker.n_queries == 2 * len(stream)


def test_a_cluster_whose_workers_are_gone_is_an_error(stream):
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.sync(cluster.workers[0].close)
        with pytest.raises(ClusterError, match="no workers left"):
            learn(pr.SlamPerceptron(), [stream, stream], client)


def test_a_cluster_that_has_forgotten_its_workers_is_an_error_at_once(stream):
    """Without nannies nobody starts them again, and Dask forgets them; those that start are waited for."""
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "100ms"}),
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.sync(cluster.workers[0].close)
        while cluster.workers:
            time.sleep(0.05)
        start = time.monotonic()
        with pytest.raises(ClusterError, match="no workers left"):
            learn(pr.SlamPerceptron(), [stream, stream], client, timeout=60)
        assert time.monotonic() - start < 20
        cluster.scale(0)
        cluster.adapt(minimum=0, maximum=1)
        assert learn(pr.SlamPerceptron(), [stream], client, timeout=60).ranker.n_queries == len(stream)


def test_a_cluster_without_workers_is_told(stream, monkeypatch):
    monkeypatch.setattr("perceptrank.distributed.waiting._PATIENCE", (0.5, 3.0))
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        with (
            pytest.warns(RuntimeWarning, match="no workers for . seconds"),
            pytest.raises(ClusterError, match="no workers left"),
        ):
            learn(pr.SlamPerceptron(), [stream, stream], client)
        with pytest.warns(RuntimeWarning), pytest.raises(TimeoutError, match=r"shard 0 \(stream 0\) waits"):
            learn(pr.SlamPerceptron(), [stream, stream], client, timeout=2)


def test_what_workers_raise_reaches_the_client(client, stream):
    """Whatever the error is: Dask sends errors with what they came from, which others may not be able to read."""

    class OwnError(Exception):
        def __init__(self, one, other):
            super().__init__(f"{one} and {other}")

    class Failing:
        def __iter__(self):
            yield stream
            raise OwnError("this", "that")

    with pytest.raises(ShardError, match=r"shard 1 \(stream 1\) failed on .*: OwnError: this and that") as error:
        learn(pr.SlamPerceptron(), [stream, Failing()], client)
    assert "in __iter__" in error.value.__notes__[0]


@pytest.mark.deep
def test_an_outcome_that_is_lost_before_it_is_fetched_is_made_again(processes, stream):
    """Its worker dies when the shard is done, and the client is busy with another one."""
    parts = shards_of(stream, 4)
    expected = learn(pr.ListwisePerceptron(), parts)
    killed = []

    def kill(progress):
        if not killed:
            time.sleep(1.0)  # all shards are done by then
            killed.extend(processes.run(os.getpid).values())
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.5)  # and the scheduler knows what it has lost

    learned = learn(pr.ListwisePerceptron(), parts, processes, progress=kill, timeout=120)
    assert killed
    assert document(learned) == document(expected)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(40))
def test_kills_at_any_moment_change_nothing(stream, seed):
    """The run takes longer than a second, as its shards take their time, so that every kill is within it."""
    rng = np.random.default_rng(seed)
    parts = [Slow(one, 0.12) for one in shards_of(stream, 6)]
    killed = []

    def kill(pids):
        time.sleep(rng.uniform(0.0, 1.0))
        os.kill(pids[rng.integers(len(pids))], signal.SIGKILL)
        killed.append(seed)

    with pr.distributed.local_cluster(2) as cluster, distributed.Client(cluster) as client:
        killer = threading.Thread(target=kill, args=[list(client.run(os.getpid).values())])
        killer.start()
        learned = learn(pr.ListwisePerceptron(), parts, client, epochs=3, timeout=120)
        assert killed
        killer.join()
    assert document(learned) == document(learn(pr.ListwisePerceptron(), shards_of(stream, 6), epochs=3))


@pytest.mark.deep
def test_a_shard_that_kills_its_workers_is_given_up(processes, stream):
    ranker = pr.SlamPerceptron()
    with pytest.raises(ShardError, match=r"shard 1 \(stream 1\) was given up: the workers that had it were lost"):
        learn(ranker, [stream, Deadly(stream)], processes, timeout=120)
    assert ranker.n_queries == 0


@pytest.mark.deep
def test_workers_that_are_restarted_are_an_error_and_the_same_call_goes_on(processes, stream, tmp_path):
    parts = shards_of(stream, 3)
    expected = learn(pr.ListwisePerceptron(), parts, epochs=3)
    restarting = threading.Thread(target=processes.restart)

    def restart(progress):
        if (progress.epoch, progress.done) == (1, 1):
            restarting.start()

    ranker = pr.ListwisePerceptron()
    with pytest.raises(ShardError, match="checkpoint= keeps what was learned"):
        learn(
            ranker,
            [Slow(one, 1.0) for one in parts],
            processes,
            epochs=3,
            progress=restart,
            checkpoint=tmp_path,
            timeout=120,
        )
    restarting.join()
    assert document(learn(pr.ListwisePerceptron(), parts, epochs=1)) == ranker.as_document()
    slow = [Slow(one, 0.0) for one in parts]
    again = learn(ranker, slow, processes, epochs=3, checkpoint=tmp_path, timeout=120)
    assert document(again) == document(expected)


@pytest.mark.deep
def test_a_cluster_that_goes_away_is_an_error_and_another_one_goes_on(stream, tmp_path):
    def cluster():
        return distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0", silence_logs=50)

    parts = shards_of(stream, 3)
    expected = learn(pr.ListwisePerceptron(), parts, epochs=3)
    first = cluster()
    closing = threading.Thread(target=first.close)

    def close(progress):
        if (progress.epoch, progress.done) == (1, 1):
            closing.start()

    slow = [Slow(one, 1.0) for one in parts]
    with distributed.Client(first) as client, pytest.raises(ShardError, match="checkpoint= keeps what was learned"):
        learn(pr.ListwisePerceptron(), slow, client, epochs=3, progress=close, checkpoint=tmp_path, timeout=30)
    closing.join()
    with cluster() as second, distributed.Client(second) as client:
        slow = [Slow(one, 0.0) for one in parts]
        again = learn(pr.ListwisePerceptron(), slow, client, epochs=3, checkpoint=tmp_path)
    assert document(again) == document(expected)
    assert [len(epoch) for epoch in again.traces] == [3, 3, 3]
