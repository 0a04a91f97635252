"""Progressive NDCG@10 on the real streams beside the checkout: one pass, mean and spread over shuffles.

python benchmarks/progressive.py [--shuffles 5]
PERCEPTRANK_DATA names the folder that holds them. "tuned" is the best of six learning
rates in hindsight; "uniform" is the listwise perceptron with uniform violators. MSLR's raw features are z-scored query
by query. Queries without a relevant document are skipped.
"""

import argparse

import numpy as np
from real_streams import find_streams

import perceptrank as pr

RATES = [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0]
COLUMNS = {
    "slam, tuned": [pr.SlamPerceptron(learning_rate=rate) for rate in RATES],
    "minimax": [pr.MinimaxPerceptron()],
    "listnet, tuned": [pr.OnlineListNet(rate) for rate in RATES],
    "uniform rho=0, last": [pr.ListwisePerceptron(violators="uniform", relative_margin=0, average=False)],
    "uniform rho=0": [pr.ListwisePerceptron(violators="uniform", relative_margin=0)],
    "uniform margin=1, tuned": [
        pr.ListwisePerceptron(violators="uniform", margin=1.0, learning_rate=rate) for rate in RATES
    ],
    "uniform": [pr.ListwisePerceptron(violators="uniform")],
    "listwise (default)": [pr.ListwisePerceptron()],
}


def mean_ndcg(template: pr.Learner, stream: pr.QueryStream, scaling: str | None, shuffles: int) -> list[float]:
    """Progressive NDCG@10 of each shuffle."""
    means = []
    for seed in range(shuffles):
        learner = type(template)(**template.get_params() | {"transforms": scaling})
        means.append(learner.learn(stream.shuffled(seed, documents=True), "ndcg@10").mean("ndcg@10"))
    return means


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shuffles", type=int, default=5)
    shuffles = parser.parse_args().shuffles
    print(f"{'stream':32}" + "".join(f"{name:>26}" for name in COLUMNS))
    for name, path in find_streams():
        stream = pr.read_letor(path)
        scaling = "query-zscore" if name.startswith("mslr") else None
        cells = []
        for settings in COLUMNS.values():
            runs = [mean_ndcg(one, stream, scaling, shuffles) for one in settings]
            best = max(runs, key=np.mean)
            cells.append(f"{np.mean(best):.3f} ± {np.std(best):.3f}")
        print(f"{name + f' ({len(stream)} q)':32}" + "".join(f"{cell:>26}" for cell in cells))


if __name__ == "__main__":
    main()
