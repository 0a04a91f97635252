"""Spark: the same bits as in this process, whatever the executors and their fate."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from support.clusters import has_java
from support.pages import PAGES, blocks_of
from support.slow_streams import Deadly, Slow

import perceptrank as pr
from perceptrank.distributed import InProcess, ShardError, learn

pyspark = pytest.importorskip("pyspark")
pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, expr, lit, udf

from perceptrank.distributed.executors import Task, executor_of
from perceptrank.distributed.spark_executor import SparkExecutor
from perceptrank.distributed.spark_parts import _shuffled, spark_shards

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("default"),  # Spark has warnings of its own
    pytest.mark.skipif(not has_java(), reason="Spark needs Java"),
]


def start(**environment):
    """Start a cluster of two executors, which are processes and can be killed: others take their place."""
    paths = os.pathsep.join([str(Path(pr.__file__).parents[1]), str(Path(__file__).parents[1])])
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", False)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = builder.config("spark.executor.memory", "512m")
    for name, value in ({"PYTHONPATH": paths} | environment).items():
        builder = builder.config(f"spark.executorEnv.{name}", value)
    session = builder.config("spark.sql.shuffle.partitions", 4).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


@pytest.fixture(scope="module")
def session():
    made = start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def stream():
    return pr.separable(90, n_features=4, seed=0).stream


def shards_of(stream, n):
    return [stream[place::n] for place in range(n)]


def document(learned):
    return learned.ranker.as_document()


def executors(session):
    """The processes of executors: children of this session's own Java process."""
    gateway = session.sparkContext._gateway.proc.pid
    below, found = {gateway}, []
    for _ in range(3):  # a shell may be between
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if parent in below and int(entry.name) not in below:
                below.add(int(entry.name))
                if b"CoarseGrainedExecutorBackend" in command:
                    found.append(int(entry.name))
    return sorted(found)


def test_the_same_bits_as_in_this_process(session, stream):
    here = learn(pr.ListwisePerceptron(transforms="running"), shards_of(stream, 5), epochs=3)
    there = learn(pr.ListwisePerceptron(transforms="running"), shards_of(stream, 5), session, epochs=3)
    assert document(here) == document(there)
    assert len(executors(session)) == 2
    for one, other in zip(here.traces, there.traces, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a.masses, b.masses)
            assert a.means() == b.means()


def test_files_which_executors_read(session, stream, tmp_path):
    files = [tmp_path / f"{n}.store" for n in range(3)]
    for path, part in zip(files, shards_of(stream, 3), strict=True):
        pr.write_store(part, path)
    here = learn(pr.SlamPerceptron(), files, epochs=2, shards=5)
    assert document(learn(pr.SlamPerceptron(), files, session, epochs=2, shards=5)) == document(here)


@pytest.fixture(scope="module")
def frame(session, stream):
    return session.createDataFrame(stream.to_frame("pandas"))


def test_rows_in_any_order_and_partitions_are_the_same_shards(session, stream, frame):
    here = learn(pr.ListwisePerceptron(), frame, InProcess(), epochs=2, shards=3, measures="ap")
    for other in (frame, frame.repartition(5), frame.orderBy("f1")):
        there = learn(pr.ListwisePerceptron(), other, session, epochs=2, shards=3, measures="ap")
        assert document(here) == document(there)
    assert here.ranker.n_queries == 2 * len(stream)
    assert sum(len(one) for one in here.traces[0]) == len(stream)
    assert document(learn(pr.ListwisePerceptron(), frame, epochs=2, shards=3, measures="ap")) == document(here)


def test_rows_that_differ_only_in_what_is_missing_are_in_one_order(session):
    """A hash passes over nulls, so these two would tie."""
    half, other = ("q", 1.0, None, 1.0, "ab"), ("q", 1.0, 1.0, None, "ab")
    schema = "qid string, relevance double, f1 double, f2 double, name string"
    orders = set()
    for rows in ([half, other], [other, half]):
        shuffled = _shuffled(session.createDataFrame(rows, schema), "qid", 2)
        orders.add(tuple(row["f1"] for row in shuffled.collect()))
    assert len(orders) == 1


def test_a_frame_whose_making_fails_names_the_cause_and_no_shard(session, frame):
    @udf("double")
    def broken(value):
        raise KeyError(f"no price for {value}")

    with pytest.raises(ShardError, match="the job of 2 shards failed: KeyError: 'no price for"):
        learn(pr.SlamPerceptron(), frame.withColumn("f1", broken("f1")), shards=2)


def test_columns_with_dots_are_refused(frame):
    with pytest.raises(ValueError, match=r"no dot in their name, got 'bm25\.title': rename them by toDF"):
        learn(pr.SlamPerceptron(), frame.withColumnRenamed("f1", "bm25.title"))


def test_more_partitions_than_shards_are_not_dropped(session, frame):
    shards = spark_shards(frame, 3, assume_grouped=False, options={})
    task = Task(pr.SlamPerceptron(), None, holds=False)
    with pytest.raises(ValueError, match="more partitions than the 2 that it had before: persist it"):
        dict(SparkExecutor(session).map(task, shards[:2]))


def test_a_frame_that_is_grouped_is_not_shuffled(stream, frame):
    from perceptrank.distributed.spark_parts import _shuffled

    grouped = _shuffled(frame, "qid", 3)
    learned = learn(pr.SlamPerceptron(), grouped, assume_grouped=True)
    assert document(learned) == document(learn(pr.SlamPerceptron(), frame, shards=3))
    with pytest.raises(ValueError, match=r"query .* is in the partitions 0 and .: leave out assume_grouped=True"):
        learn(pr.SlamPerceptron(), frame.repartition(4), assume_grouped=True)
    with pytest.raises(TypeError, match="shards cannot be given with assume_grouped"):
        learn(pr.SlamPerceptron(), frame, assume_grouped=True, shards=3)


def test_numbers_and_texts_are_the_same_queries(stream, frame):
    """Spark has one type for all ids of a frame: of numbers and texts together, they are texts."""
    halves = [frame.where("f1 < 0"), frame.where("f1 >= 0").withColumn("qid", col("qid").cast("string"))]
    ranker, _ = learn(pr.SlamPerceptron(), halves[0].union(halves[1]), shards=3)
    assert ranker.n_queries == len(stream)


def test_files_whose_ids_are_of_two_types_share_queries(session, stream, tmp_path):
    table = stream.to_frame("pandas")
    table.to_parquet(tmp_path / "numbers.parquet")
    table.assign(qid=table.qid.astype(str)).to_parquet(tmp_path / "texts.parquet")
    with pytest.warns(UserWarning, match="90 of 90 queries are in several files"):
        learn(pr.SlamPerceptron(), [tmp_path / "numbers.parquet", tmp_path / "texts.parquet"], session)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("f1", "double('nan')", r"shard \d \(partition \d\) failed on .*, in .*, task \d+: .*X must be finite.*'f1'"),
        ("f1", "'x'", "failed on .*could not convert string to float"),
        ("relevance", "double(null)", "failed on .*relevance must be finite"),
        ("qid", "cast(null as bigint)", "failed on .*qid must not be missing"),
    ],
)
def test_rows_that_are_wrong_say_so(frame, column, value, message):
    ranker = pr.SlamPerceptron()
    with pytest.raises(ShardError, match=message):
        learn(ranker, frame.withColumn(column, expr(value)), shards=2)
    assert ranker.n_queries == 0


def test_frames_without_rows_columns_or_spark_say_so(frame):
    for shards in (2, None):
        with pytest.raises(ValueError, match="no queries in the shards 0"):
            learn(pr.SlamPerceptron(), frame.limit(0), shards=shards)
    with pytest.raises(ValueError, match="no column 'relevance'"):
        learn(pr.SlamPerceptron(), frame.drop("relevance"))
    with pytest.raises(ValueError, match="has a column 'score' already"):
        pr.distributed.predict(pr.ListwisePerceptron(transforms=None), frame.withColumn("score", lit(1)))


def test_scores_places_and_measures_are_frames(stream, frame):
    ranker = pr.ListwisePerceptron()
    ranker.learn(pr.QueryStream.from_frame(stream.to_frame("pandas")))
    scored = pr.distributed.predict(ranker, frame)
    assert scored.columns == [*frame.columns, "score"]
    both = pr.distributed.rank(ranker, scored).toPandas()
    assert len(both) == stream.n_documents
    assert (both.groupby("qid").score.rank(ascending=False) == both.place).all()
    expected = pr.QueryStream.from_frame(both.drop(columns=["score", "place"]))
    np.testing.assert_allclose(both.score.to_numpy(), ranker.scores(expected), rtol=1e-12, atol=1e-12)
    plain = pr.SlamPerceptron(transforms=None)
    plain.learn(pr.QueryStream.from_frame(stream.to_frame("pandas")))
    assert pr.distributed.predict(plain, frame).count() == stream.n_documents
    table = pr.distributed.evaluate(ranker, frame, ["ndcg@10", "ap"])
    assert table.columns == ["qid", "ndcg@10", "ap"]
    means = table.agg({"ap": "avg"}).collect()[0][0]
    assert means == pytest.approx(
        pr.evaluate(ranker, pr.QueryStream.from_frame(stream.to_frame("pandas")), "ap").mean("ap")
    )


def test_queries_that_a_measure_leaves_out_are_null(session):
    stream = pr.QueryStream.from_arrays(np.arange(8.0).reshape(4, 2), [0, 0, 1, 0], qid=[1, 1, 2, 2])
    ranker = pr.SlamPerceptron(transforms=None)
    ranker.learn(pr.QueryStream.from_frame(stream.to_frame("pandas")))
    frame = session.createDataFrame(stream.to_frame("pandas"))
    values = {row.qid: row.ap for row in pr.distributed.evaluate(ranker, frame, "ap").collect()}
    expected = pr.parse("ap").per_query(ranker.scores(stream), stream.relevance, stream.offsets)
    assert values == {1: None if np.isnan(expected[0]) else expected[0], 2: expected[1]}


def test_a_bad_file_names_itself_and_the_executor(session, stream, tmp_path):
    pr.write_letor(stream, tmp_path / "good.txt")
    (tmp_path / "bad.txt").write_text("1 qid:1 1:nonsense\n")
    ranker = pr.SlamPerceptron()
    message = r"shard 1 \(.*bad.txt\) failed on .*, in .*/app-.*, task \d+: FormatError: .*bad.txt.*nonsense"
    with pytest.raises(ShardError, match=message) as error:
        learn(ranker, [tmp_path / "good.txt", tmp_path / "bad.txt"], session)
    assert "in run" in error.value.__notes__[0]
    assert ranker.n_queries == 0


def running(session):
    return session.sparkContext.statusTracker().getActiveJobsIds()


def test_stragglers_do_not_block_forever(session, stream):
    with pytest.raises(TimeoutError, match=r"no shard was finished for 4 seconds.* 1 \(stream 1\) on executor \d+, "):
        learn(pr.SlamPerceptron(), [stream, Slow(stream, 60)], session, timeout=4)
    assert not running(session)


def test_an_interrupt_cancels_the_jobs(session, stream):
    def interrupt(progress):
        raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        learn(pr.SlamPerceptron(), [stream, Slow(stream, 60), Slow(stream, 60)], session, progress=interrupt)
    assert not running(session)
    assert time.monotonic() - started < 30


def test_a_killed_executor_changes_nothing(session, stream):
    parts = [Slow(one, 0.3) for one in shards_of(stream, 4)]
    killed = []

    def kill(progress):
        if progress.epoch == 1 and progress.done == 1:
            killed.append(executors(session)[0])
            os.kill(killed[0], signal.SIGKILL)

    expected = learn(pr.ListwisePerceptron(), shards_of(stream, 4), epochs=2)
    learned = learn(pr.ListwisePerceptron(), parts, session, epochs=2, progress=kill, timeout=120)
    assert len(killed) == 1
    assert document(learned) == document(expected)


def test_resuming_is_never_having_stopped(session, stream, tmp_path):
    parts = shards_of(stream, 3)
    learn(pr.ListwisePerceptron(), parts, session, epochs=1, checkpoint=tmp_path)
    again = learn(pr.ListwisePerceptron(), parts, session, epochs=3, checkpoint=tmp_path)
    assert document(again) == document(learn(pr.ListwisePerceptron(), parts, epochs=3))


def test_learners_are_compared(session, stream):
    learners = [pr.ListwisePerceptron(), pr.SlamPerceptron()]
    there = pr.distributed.compare(learners, stream, "ap", session)
    here = pr.compare([pr.ListwisePerceptron(), pr.SlamPerceptron()], stream, "ap")
    assert there.standings("ap") == here.standings("ap")


def test_classes_of_the_main_program_and_plugins_travel(session, stream, tmp_path):
    path = tmp_path / "halves.py"
    path.write_text(
        "import perceptrank as pr\n\n@pr.register\nclass Halves(pr.NumpyLearner):\n    algorithm = 'halves'\n"
        "    def update(self, scores, X, relevance):\n        return relevance - relevance.mean()\n"
    )
    from perceptrank.learners.registry import load_file, unregister

    (kind,) = load_file(path)
    try:
        path.unlink()
        comparison = pr.distributed.compare([kind()], stream, "ap", session)
        assert comparison.standings("ap") == pr.compare([kind()], stream, "ap").standings("ap")
    finally:
        unregister("halves")


def test_the_example_of_the_page_runs(session):
    (example,) = [block.text for block in blocks_of(PAGES["docs/scale.md"]) if block.title == "spark_shards.py"]
    names = {}
    exec(example, names)
    assert names["ranker"].n_queries == 1200


def test_sessions_of_spark_connect_are_refused():
    kind = type("SparkSession", (), {"createDataFrame": None, "readStream": None})
    kind.__module__ = "pyspark.sql.connect.session"
    with pytest.raises(TypeError, match="Spark Connect"):
        executor_of(kind(), None)


@pytest.mark.deep
def test_a_shard_that_kills_its_workers_is_given_up(session, stream):
    ranker = pr.SlamPerceptron()
    with pytest.raises(ShardError, match=r"shard 1 \(stream 1\) was given up: .*executor \d+.*Python worker exited"):
        learn(ranker, [stream, Deadly(stream)], session, timeout=120)
    assert ranker.n_queries == 0


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(8))
def test_kills_at_any_moment_change_nothing(session, stream, seed):
    """Two kills in each run, of an executor that is there at that moment."""
    rng = np.random.default_rng(seed)
    parts = [Slow(one, 0.2) for one in shards_of(stream, 6)]
    killed = []

    def kill():
        for _ in range(2):
            time.sleep(rng.uniform(0.0, 2.0))
            found = executors(session)
            if found:
                os.kill(found[rng.integers(len(found))], signal.SIGKILL)
                killed.append(seed)

    killer = threading.Thread(target=kill)
    killer.start()
    learned = learn(pr.ListwisePerceptron(), parts, session, epochs=3, timeout=120)
    killer.join()
    assert killed
    assert document(learned) == document(learn(pr.ListwisePerceptron(), shards_of(stream, 6), epochs=3))


@pytest.mark.deep
def test_executors_without_perceptrank_or_with_another_one_are_named(stream, tmp_path, session):
    """Each has its own Java process, as a program has one context at a time."""
    session.stop()
    missing, other = tmp_path / "missing" / "perceptrank", tmp_path / "other"
    missing.mkdir(parents=True)
    (missing / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'perceptrank'\")")
    other.mkdir()
    (other / "sitecustomize.py").write_text("import perceptrank\nperceptrank.__version__ = '0.0.1'")
    source = Path(pr.__file__).parents[1]
    for paths, message in [
        (str(missing.parent), r"shard . .* failed: executors cannot import perceptrank; install perceptrank\[spark\]"),
        (f"{other}{os.pathsep}{source}", r"the worker has perceptrank 0\.0\.1, and this was sent by perceptrank"),
    ]:
        odd = start(PYTHONPATH=paths)
        try:
            with pytest.raises(ShardError, match=message):
                learn(pr.SlamPerceptron(), [stream], odd)
        finally:
            odd.stop()
