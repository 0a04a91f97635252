"""Our untuned learners against every learner tuned in hindsight, on the real streams beside the checkout.

python benchmarks/quality.py [--orders 10] [--json FILE]
Progressive NDCG@10, one pass, mean over random orders of the queries; features as they come. Every learner runs without
transforms, on `running`, `query-zscore` and `auto`; where its rankings depend on a learning rate, limit or
regularization also with nine values of it, averaged and not (around ListNet and RankNet with both of AdaGrad's steps as
well). The best of all these for the mean is taken, hindsight that no one has in practice. Ours have their defaults.

Then each of ours minus that best one, with an interval: queries are resampled, each query's difference being averaged
over the orders first, and all intervals of a stream against all settings hold at once with 95 % confidence (the largest
studentized deviation decides their width), so that having chosen the best of many is accounted for. What diverges is
left out. PERCEPTRANK_DATA names the folder that holds the streams.
"""

import argparse
import json
import warnings
from collections import defaultdict
from itertools import product

import numpy as np
from real_streams import find_streams

import perceptrank as pr

warnings.simplefilter("ignore", UserWarning)  # of spreads: features as they come are one of the cases

OURS = {
    "listwise": pr.ListwisePerceptron,
    "ridge": lambda: pr.OnlineRidge(transforms="auto"),
    "sum": pr.Sum,
    "tournament": pr.Tournament,
}
TRANSFORMS = ("raw", "running", "query-zscore", "auto")
TUNED = {
    "solar-1": ("limit", [10.0**e for e in range(-6, 3)]),
    "solar-2": ("regularization", [10.0**e for e in range(-2, 7)]),
    "ridge": ("penalty", [10.0**e for e in range(-2, 7)]),
}
RATES = [10.0**e for e in range(-5, 4)]
N_RESAMPLES = 4000

Key = tuple[str, str, str]  # learner, transform, setting


def candidates() -> dict[tuple[str, str], pr.Learner]:
    """All learners at all their values, without transforms, by name and value."""
    learners = {}
    for name, kind in pr.algorithms().items():
        if name in ("sum", "tournament"):
            continue
        given = {"transforms": None} if "transforms" in kind.parameter_names else {}
        averages = {"": False, ", averaged": True} if "average" in kind.parameter_names else {"": None}
        parameter, values = TUNED.get(name, ("learning_rate", RATES if kind.depends_on_rate else [None]))
        for value, (suffix, average) in product(values, averages.items()):
            chosen = given | ({} if value is None else {parameter: value})
            chosen |= {} if average is None else {"average": average}
            learners[name, f"{value or ''}{suffix}" or "-"] = kind(**chosen)
    for kind, steps, rate, average in product(
        (pr.OnlineListNet, pr.RankNet), ("diagonal", "norm"), RATES, (False, True)
    ):
        learner = pr.AdaGrad(kind(rate, average=average, transforms=None), steps=steps)
        learners[learner.name, f"{steps} {rate:g}{', averaged' if average else ''}"] = learner
    return learners


def transformed(stream: pr.QueryStream, name: str) -> pr.QueryStream:
    """The stream as a learner with this transform sees it, query after query."""
    if name == "raw":
        return stream
    transform = pr.ListwisePerceptron(transforms=name).transforms_[0]
    return stream.with_features(transform.learn_and_apply(stream.X, stream.offsets))


def per_query(stream: pr.QueryStream, n_orders: int) -> tuple[dict[str, np.ndarray], dict[Key, np.ndarray]]:
    """NDCG@10 of every query, mean over orders: of ours, and of all candidates."""
    ours, values = defaultdict(list), defaultdict(list)
    place = {qid: number for number, qid in enumerate(stream.qids.tolist())}
    for seed in range(n_orders):
        shuffled = stream.shuffled(seed, documents=True)
        back = np.argsort([place[qid] for qid in shuffled.qids.tolist()])
        result = pr.compare({name: make() for name, make in OURS.items()}, shuffled, "ndcg@10")
        for name, trace in result.traces.items():
            ours[name].append(trace.values("ndcg@10")[back])
        for transform in TRANSFORMS:
            learners = {"\t".join(key): learner for key, learner in candidates().items()}
            result = pr.compare(learners, transformed(shuffled, transform), "ndcg@10", on_error="drop")
            for key, trace in result.traces.items():
                name, value = key.split("\t")
                values[name, transform, value].append(trace.values("ndcg@10")[back])
    means = {key: np.mean(rows, axis=0) for key, rows in values.items() if len(rows) == n_orders}
    return {name: np.mean(rows, axis=0) for name, rows in ours.items()}, means


def intervals(differences: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means of the rows, and intervals that all hold at once with 95 % confidence, queries being resampled."""
    n = differences.shape[1]
    mean, error = differences.mean(axis=1), differences.std(axis=1) / np.sqrt(n)
    error = np.maximum(error, 1e-12)
    shares = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=N_RESAMPLES) / n
    apart = np.abs(shares @ differences.T - mean) / error
    width = np.quantile(apart.max(axis=1), 0.95) * error
    return mean, mean - width, mean + width


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=10)
    parser.add_argument("--json", metavar="FILE", help="write the rows to a file as well")
    arguments = parser.parse_args()
    rows = []
    for stream_name, path in find_streams():
        stream = pr.read_letor(path)
        ours, values = per_query(stream, arguments.orders)
        keys = list(values)
        counted = ~np.isnan(values[keys[0]])
        table = np.array([values[key][counted] for key in keys])
        best = {
            name: max((k for k in range(len(keys)) if keys[k][0] == name), key=lambda k: table[k].mean())
            for name, _, _ in keys
        }
        found = {name: intervals(own[counted] - table) for name, own in ours.items()}
        shown = ", ".join(f"{name} {own[counted].mean():.4f}" for name, own in ours.items())
        print(
            f"\n{stream_name}: {len(stream)} queries, {counted.sum()} count, {arguments.orders} orders, "
            f"{len(keys)} settings"
        )
        print(f"untuned: {shown}\n")
        headings = "".join(f"{name + ' ahead by':>20}{'interval':>20}{'':8}" for name in OURS)
        print(f"{'tuned in hindsight':20}{'transform':>14}{'setting':>22}{'ndcg@10':>10}{headings}")
        for name, k in sorted(best.items(), key=lambda one: -table[one[1]].mean()):
            line = {"stream": stream_name, "learner": name, "transform": keys[k][1], "setting": keys[k][2]}
            line["ndcg@10"] = float(table[k].mean())
            text = f"{name:20}{keys[k][1]:>14}{keys[k][2]:>22}{table[k].mean():10.4f}"
            for own, (mean, low, high) in found.items():
                verdict = "ahead" if low[k] > 0 else "BEHIND" if high[k] < 0 else "level"
                text += f"{mean[k]:+20.4f}{f'{low[k]:+.4f} to {high[k]:+.4f}':>20}  {verdict:6}"
                line[own] = {"ahead": float(mean[k]), "low": float(low[k]), "high": float(high[k])}
            print(text, flush=True)
            rows.append(line)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
