"""Every learner at its best rate in hindsight against our two untuned ones, on the real streams beside the checkout.

python benchmarks/quality.py [--shuffles 5] [--json FILE]
Progressive NDCG@10, one pass, mean over shuffles. Learners whose rankings depend on a learning rate, limit or
regularization run with nine values of it, averaged and not (around ListNet and RankNet also with both of AdaGrad's
steps), and the best for the mean is taken: hindsight that no one has in practice. Then each of our two minus that
learner, with a 95 % interval from resampling queries, each query's difference being averaged over the shuffles first.
What diverges is left out. PERCEPTRANK_DATA names the folder that holds them. MSLR's raw
features are z-scored query by query.
"""

import argparse
import json
from collections import defaultdict
from itertools import product

import numpy as np
from real_streams import find_streams

import perceptrank as pr

TUNED = {
    "solar-1": ("limit", [10.0**e for e in range(-6, 3)]),
    "solar-2": ("regularization", [10.0**e for e in range(-2, 7)]),
}
RATES = [10.0**e for e in range(-5, 4)]
OURS = ("listwise", "tournament")
AVERAGED = {"": False, ", averaged": True}


def settings() -> dict[tuple[str, str], pr.Learner]:
    """All learners at all their values, by name and value."""
    learners = {}
    for name, kind in pr.algorithms().items():
        if name in TUNED:
            parameter, values = TUNED[name]
            learners |= {(name, f"{value:g}"): kind(**{parameter: value}) for value in values}
        elif kind.depends_on_rate:
            for rate, (suffix, average) in product(RATES, AVERAGED.items()):
                learners[name, f"{rate:g}{suffix}"] = kind(learning_rate=rate, average=average)
        else:
            learners[name, ""] = kind()
            if name not in OURS and "average" in kind.parameter_names:
                learners[name, "averaged"] = kind(average=True)
    for kind, steps, rate in product((pr.OnlineListNet, pr.RankNet), ("diagonal", "norm"), RATES):
        for suffix, average in AVERAGED.items():
            learner = pr.AdaGrad(kind(rate, average=average), steps=steps)
            learners[learner.name, f"{steps} {rate:g}{suffix}"] = learner
    learners["listwise, uniform", ""] = pr.ListwisePerceptron(violators="uniform")
    learners["bagging:listwise", ""] = pr.Bagging(pr.ListwisePerceptron())
    return learners


def per_query(stream: pr.QueryStream, shuffles: int) -> dict[tuple[str, str], np.ndarray]:
    """NDCG@10 of every query, in the stream's own order, one row per shuffle."""
    values = defaultdict(list)
    place = {qid: number for number, qid in enumerate(stream.qids.tolist())}
    for seed in range(shuffles):
        shuffled = stream.shuffled(seed, documents=True)
        learners = settings()
        result = pr.compare(
            {f"{name} {value}": one for (name, value), one in learners.items()}, shuffled, "ndcg@10", on_error="drop"
        )
        back = np.argsort([place[qid] for qid in shuffled.qids.tolist()])
        for key in learners:
            if (trace := result.traces.get(" ".join(key))) is not None:  # else it diverged
                values[key].append(trace.values("ndcg@10")[back])
    return {key: np.array(rows) for key, rows in values.items() if len(rows) == shuffles}


def interval(differences: np.ndarray, seed: int = 0) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    drawn = [differences[rng.integers(len(differences), size=len(differences))].mean() for _ in range(4000)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shuffles", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write the rows to a file as well")
    arguments = parser.parse_args()
    rows = []
    for name, path in find_streams():
        stream = pr.read_letor(path)
        if name.startswith("mslr"):
            stream = pr.QueryZScore().transform(stream)
        values = per_query(stream, arguments.shuffles)
        counted = ~np.isnan(next(iter(values.values()))[0])
        means = {key: float(rows_[:, counted].mean()) for key, rows_ in values.items()}
        ours = {name: values[name, ""][:, counted].mean(axis=0) for name in OURS}
        print(f"\n{name}: {len(stream)} queries, {counted.sum()} count, {arguments.shuffles} shuffles")
        headings = "".join(f"{name + ' ahead by':>22}{'95 % interval':>20}{'':8}" for name in OURS)
        print(f"{'learner':20}{'best in hindsight':>24}{'ndcg@10':>10}{headings}")
        best = {kind: max((key for key in means if key[0] == kind), key=means.get) for kind, _ in means}
        for kind in sorted(best, key=lambda kind: -means[best[kind]]):
            key = best[kind]
            row = {"stream": name, "learner": kind, "setting": key[1], "ndcg@10": means[key]}
            shown = f"{kind:20}{key[1] or '-':>24}{means[key]:10.4f}"
            for own in OURS:
                ahead = ours[own] - values[key][:, counted].mean(axis=0)
                low, high = interval(ahead)
                verdict = "" if kind == own else "ahead" if low > 0 else "BEHIND" if high < 0 else "level"
                shown += f"{ahead.mean():+22.4f}{f'{low:+.4f} to {high:+.4f}':>20}  {verdict:6}"
                row[own] = {"ahead": float(ahead.mean()), "low": low, "high": high}
            print(shown)
            rows.append(row)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
