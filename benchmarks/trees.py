"""What trees that are fitted again as queries come are worth: NDCG@10, time and memory.

python benchmarks/trees.py real [--shuffles 10] [--sets mq2008]
python benchmarks/trees.py teacher [--queries 50000] [--sets mq2008,imat2009] [--teacher trees|network] [--batch]
python benchmarks/trees.py cost [--queries 50000] [--sets mq2008]

PERCEPTRANK_DATA names the folder that holds the samples. Nothing is tuned: learners have their defaults, beside what
their names say; "small memory" has room for about 16,000 queries. Differences have intervals of 95 % each, by a paired
bootstrap over queries; "behind" and "ahead" are those that do not contain 0. Set OMP_NUM_THREADS=1: times are those of
the processor, of all threads, and threads that wait count.

real     The samples, each query ranked before it was learned from, the mean over orders, and the difference to the
         linear default. "trees from" is the query from which on there are trees: in short samples there are none.
         The files of MQ2008 are also joined.
teacher  The last tenth of a teacher stream, each query ranked before it was learned from. "share" is the share of the
         gap between the linear default and the teacher that is closed. Batch learners are fitted to the first nine
         tenths, and do not learn from the last; "63 leaves" has the sizes and the rate that trees have by then. "fit
         to" is the number of queries that the trees at the end know.
cost     Microseconds per document of a stream of queries of 20 documents: of the linear default, of learners with
         trees, and of their parts, each timed on its own. "scoring" is that of the last trees, "fits" are all fits,
         spread over the documents of the stream. MB are those of the queries that are remembered, and the most that
         memory grew by in the pass (Linux).
"""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from lambdamart import FITTERS, fit_lightgbm
from nonlinear import MEASURE, Usage, difference, read_sets, splits
from real_streams import find_streams

import perceptrank as pr
from perceptrank.transforms.trees.fitting import fit_forest
from perceptrank.transforms.trees.forest import Forest
from perceptrank.transforms.trees.memory import Memory

FEWER_QUERIES = 16_000
LENGTH = 20
LINEAR, TREES, SMALL = "linear", "trees", "trees, small memory"
LEARNERS: dict[str, Callable[[], Any]] = {
    LINEAR: pr.ListwisePerceptron,
    "linear, running": lambda: pr.ListwisePerceptron(transforms="running"),
    "sum": pr.Sum,
    TREES: pr.WithTrees,
    "trees, running": lambda: pr.WithTrees(pr.ListwisePerceptron(transforms="running")),
    "trees, sum": lambda: pr.WithTrees(pr.Sum()),
}

BATCH = FITTERS | {"LightGBM, 63 leaves": lambda train: fit_lightgbm(train, num_leaves=63, learning_rate=0.2)}


def with_small_memory(stream: pr.QueryStream) -> Callable[[], Any]:
    """Trees with room for so many queries of mean length."""
    memory = Memory(10**12, 0)
    sample = stream[:1000]
    memory.add(sample.X, sample.relevance, sample.offsets, np.ones(len(sample)))
    return lambda: pr.WithTrees(memory=FEWER_QUERIES * memory.size / len(memory) / 10**6)


def real_sets(chosen: str | None) -> Iterator[tuple[str, pr.QueryStream]]:
    yield from read_sets(chosen)
    paths = [path for name, path in find_streams() if name.startswith("mq2008")]
    if len(paths) > 1 and "mq2008".startswith(tuple((chosen or "").split(","))):
        yield "mq2008, all files", pr.QueryStream.concatenate([pr.read_letor(path) for path in paths])


def real(options: argparse.Namespace) -> None:
    """For each query the mean over orders, then intervals over queries."""
    for name, stream in real_sets(options.sets):
        print(f"\n{name}: {len(stream)} queries, {stream.n_documents} documents; {options.shuffles} orders")
        print(f"{'':22}{'NDCG@10':>9}{'difference to linear':>34}  trees from")
        linear = None
        for kind, make in LEARNERS.items():
            values = np.zeros(len(stream))
            for order, _ in splits(stream, options.shuffles):
                ranker = make()
                values[order] += ranker.learn(stream[order], MEASURE).values(MEASURE) / options.shuffles
            linear = values if linear is None else linear
            print(f"{kind:22}{difference(values, linear)}  {first_ranked(ranker)}", flush=True)


def first_ranked(ranker: Any) -> str:
    """The query that trees were there for first."""
    if not isinstance(ranker, pr.WithTrees):
        return ""
    return "none" if ranker.trees.forest is None else str(ranker.first_fit + max(1, ranker.first_fit // 10) + 1)


def teacher(options: argparse.Namespace) -> None:
    for name, sample in read_sets(options.sets or "mq2008,imat2009"):
        simulated = pr.teacher_stream(sample, options.queries, teacher=options.teacher)
        stream = pr.QueryStream.concatenate(list(simulated))
        cut = len(stream) - len(stream) // 10
        train, last = stream[:cut], stream[cut:]
        best = pr.evaluate(simulated.teacher, last, MEASURE).mean(MEASURE)
        print(f"\n{name}: {len(stream)} queries, {stream.n_documents} documents; teacher: {options.teacher}")
        print(f"{'':22}{'last tenth':>11}{'share':>7}{'us/doc':>9}{'MB':>6}{'fit to':>8}")
        reached: dict[str, np.ndarray] = {}
        told = "{:22}{:11.4f}{:7.0%}{:9.2f}{:6.0f}{:>8}"
        for kind, make in (LEARNERS | {SMALL: with_small_memory(stream)}).items():
            make().learn(train[:20], MEASURE)  # compiles
            ranker = make()
            with Usage() as usage:
                reached[kind] = learn(ranker, stream).values(MEASURE)[cut:]
            mean, linear = np.nanmean(reached[kind]), np.nanmean(reached[LINEAR])
            each = usage.seconds / stream.n_documents * 1e6
            fit_to = fitted_to(ranker, stream)
            print(told.format(kind, mean, (mean - linear) / (best - linear), each, usage.megabytes, fit_to), flush=True)
        for kind, fit in BATCH.items() if options.batch else ():
            with Usage() as usage:
                model = fit(train)
            reached[kind] = pr.evaluate(model, last, MEASURE).values(MEASURE)
            mean, each = np.nanmean(reached[kind]), usage.seconds / train.n_documents * 1e6
            share = (mean - linear) / (best - linear)
            print(told.format(kind, mean, share, each, usage.megabytes, len(train)), flush=True)
        print(f"{'teacher':22}{best:11.4f}{1:7.0%}")
        for batch in BATCH if options.batch else ():
            print(f"against {batch}")
            for kind in (one for one in LEARNERS | {SMALL: None} if one.startswith(TREES)):
                print(f"{kind:22}{difference(reached[kind], reached[batch])}", flush=True)


def learn(ranker: Any, stream: pr.QueryStream) -> pr.Trace:
    """Learn, and wait for a fit that has begun: what is timed next would pay for it."""
    trace = ranker.learn(stream, MEASURE)
    if isinstance(ranker, pr.WithTrees) and ranker.trees._fit is not None:
        ranker.trees._fit.result()
    return trace


def fits(ranker: Any, stream: pr.QueryStream) -> Iterator[tuple[int, Memory]]:
    """The fits that begin in a stream: the number of queries before each, and what is remembered of them."""
    n, memory, seen = ranker.first_fit, Memory(int(ranker.memory * 10**6), ranker.seed), 0
    while n <= len(stream):
        block = stream[seen:n]
        memory.add(block.X, block.relevance, block.offsets, np.ones(len(block)))
        yield n, memory
        n, seen = 2 * n, n


def fitted_to(ranker: Any, stream: pr.QueryStream) -> str:
    if not isinstance(ranker, pr.WithTrees):
        return ""
    return str([0, *(len(memory) for n, memory in fits(ranker, stream) if n + max(1, n // 10) < len(stream))][-1])


def cost(options: argparse.Namespace) -> None:
    for name, sample in read_sets(options.sets or "mq2008"):
        simulated = pr.QueryStream.concatenate(list(pr.teacher_stream(sample, options.queries)))
        n = simulated.n_documents // LENGTH
        documents = slice(0, n * LENGTH)  # drawn independently of each other, so any of them are a query
        stream = pr.QueryStream(
            simulated.X[documents], simulated.relevance[documents], np.arange(n + 1, dtype=np.int64) * LENGTH
        )
        del simulated
        print(f"\n{name}: {n} queries of {LENGTH} x {stream.n_features}")
        print(f"{'':22}{'us/doc':>9}{'beyond linear':>15}{'scoring':>9}{'fits':>8}{'rest':>8}{'MB kept':>9}{'MB':>6}")
        linear = 0.0
        for kind, make in {
            LINEAR: LEARNERS[LINEAR],
            TREES: LEARNERS[TREES],
            SMALL: with_small_memory(stream),
        }.items():
            learn(make(), stream[:300])  # compiles
            ranker = make()
            with Usage() as usage:
                learn(ranker, stream)
            each = usage.seconds / stream.n_documents * 1e6
            linear = linear or each
            told, lines = f"{kind:22}{each:9.2f}{each - linear:15.2f}", []
            if isinstance(ranker, pr.WithTrees):
                scoring = time_scoring(ranker.trees.forest, stream) / stream.n_documents * 1e6
                seconds = 0.0
                for queries, memory in fits(ranker, stream):
                    start = time.process_time()
                    forest = fit_forest(memory.queries(), ranker.n_trees, ranker.seed)
                    spent = time.process_time() - start
                    seconds += spent
                    lines.append(
                        f"  fit after {queries:6} queries, to {len(memory):6}: {spent:7.2f} s; "
                        f"{forest.n_leaves / forest.n_trees:.0f} leaves a tree"
                    )
                fitting = seconds / stream.n_documents * 1e6
                told += f"{scoring:9.2f}{fitting:8.2f}{each - linear - scoring - fitting:8.2f}"
                told += f"{ranker.trees._remembered.size / 1e6:9.1f}"
            else:
                told += " " * 34
            print("\n".join([f"{told}{usage.megabytes:6.0f}", *lines]), flush=True)


def time_scoring(forest: Forest, stream: pr.QueryStream) -> float:
    forest.scores(stream.X[:100])  # compiles
    start = time.process_time()
    forest.scores(stream.X)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["real", "teacher", "cost"])
    parser.add_argument("--queries", type=int, default=50_000)
    parser.add_argument("--sets", help="beginnings of names, with commas between them")
    parser.add_argument("--shuffles", type=int, default=10)
    parser.add_argument("--teacher", choices=["trees", "network"], default="trees")
    parser.add_argument("--batch", action="store_true")
    options = parser.parse_args()
    {"real": real, "teacher": teacher, "cost": cost}[options.what](options)


if __name__ == "__main__":
    main()
