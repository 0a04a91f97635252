"""Position bias from simulated logs: its error and the coverage of its intervals, for places 1 to 10.

python benchmarks/clicks_bias.py [error] [coverage] [others] [speed] [--seeds 5] [--logs 200] [--json]

Queries have 10 documents with grades 0 to 4, clicked with probability .05, .3, .5, .7 and .95 when examined. They are
ranked by the grade with noise, and shown in one of these ways:

fair pairs   one ranker, neighbours are swapped at random
rankers      four rankers that take turns, as if retrained, each with fair pairs
harvested    four rankers that take turns, and no swaps: nothing is random
shuffle      the ten documents in random order

error: the largest relative error of places 1 to 10, from 100,000 impressions of 1,000 queries, for users who examine
place k with probability 1/k, 1/sqrt(k) and 1/log2(1 + k). AllPairs is the estimator of Agarwal et al. (2019) as they
publish it: the same documents, each with the same weight, however often it was seen.

coverage: the share of logs (10,000 impressions of 200 queries) whose interval of 95 % contains the truth: the lowest of
the places, and their mean.

others: estimates for users who do not follow the model: trust bias, cascade users, and user browsing. There is no true
value; the share of clicks at each place among documents in random order is what they are compared with.

speed: seconds for 1,000,000 impressions of 10 documents.
"""

import argparse
import json
import time
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

import perceptrank as pr

Floats = npt.NDArray[np.float64]
PLACES = np.arange(1, 11)
CURVES = {"1/k": 1 / PLACES, "1/sqrt(k)": PLACES**-0.5, "1/log2(1+k)": 1 / np.log2(1 + PLACES)}
CLICK = [0.05, 0.3, 0.5, 0.7, 0.95]  # probability of a click on what is seen, by grade
STOP = [0.2, 0.3, 0.5, 0.7, 0.9]
SHARES = [0.3, 0.25, 0.2, 0.15, 0.1]  # of the grades
DESIGNS = ("fair pairs", "rankers", "harvested", "shuffle")
N_RANKERS = 4


def make_log(design: str, user: pr.clicks.User, n_queries: int, impressions: int, seed: int) -> list[pr.QueryStream]:
    """Simulate impressions, in as many parts as there are rankers; the features are the rankers' scores."""
    rng = np.random.default_rng([seed, 1])
    grades = rng.choice(5, size=10 * n_queries, p=SHARES).astype(float)
    X = grades[:, None] + rng.normal(size=(len(grades), N_RANKERS))
    queries = pr.QueryStream.from_arrays(X, grades, group=[10] * n_queries, docids=np.tile(PLACES, n_queries))
    n_rankers = N_RANKERS if design in ("rankers", "harvested") else 1
    policy = {"harvested": "none", "shuffle": "shuffle:10"}.get(design, "fair-pairs")
    return [
        pr.simulate_clicks(
            queries,
            user,
            ranker=np.eye(N_RANKERS)[r],
            policy=policy,
            impressions=impressions // n_rankers,
            seed=seed * N_RANKERS + r,
        )
        for r in range(n_rankers)
    ]


def all_pairs(log: list[pr.QueryStream]) -> Floats:
    """Return the estimate of AllPairs: a rate of examination per place, and of relevance per pair of places."""
    sums = pr.clicks.PositionBiasSums("pairs")
    for part in log:
        sums.add(part)
    cells = sums._documents[0].joined(sums._documents).cells(10)
    seen, clicked = (cells.table(values).toarray() for values in (cells.shown, cells.clicks))
    rates = np.divide(clicked, seen, out=np.zeros_like(seen), where=seen > 0)
    upper, lower = np.triu_indices(10, 1)
    pairs = [(seen[:, a] > 0) & (seen[:, b] > 0) for a, b in zip(upper, lower, strict=True)]
    clicks = np.array([[rates[both, k].sum() for k in (a, b)] for both, a, b in zip(pairs, upper, lower, strict=True)])
    misses = np.array([[both.sum()] * 2 for both in pairs]) - clicks
    ends = np.stack([upper, lower], axis=1)

    def loss(logs: Floats) -> tuple[float, Floats]:
        chance = np.minimum(logs[:10][ends] + logs[10:, None], -1e-9)
        slope = clicks - misses * np.exp(chance) / -np.expm1(chance)
        value = (clicks * chance + misses * np.log(-np.expm1(chance))).sum()
        return -value, -np.concatenate([np.bincount(ends.ravel(), slope.ravel(), 10), slope.sum(axis=1)])

    start = np.full(10 + len(ends), -0.7)
    best = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=[(-9, 0)] * len(start), options={"maxiter": 5000}
    ).x
    return np.asarray(np.exp(best[:10] - best[0]))


def largest_error(estimate: Floats, truth: Floats) -> float:
    """Return the largest relative error; infinite if a place is not identified."""
    errors = np.abs(estimate / truth - 1)
    return float(errors.max()) if np.isfinite(errors).all() else float("inf")


def error(seeds: int) -> list[dict[str, Any]]:
    """Measure the largest relative error of each method."""
    rows = []
    for design in DESIGNS:
        for curve, truth in CURVES.items():
            errors: dict[str, list[float]] = {}
            for seed in range(seeds):
                user = pr.clicks.position_based(truth.tolist(), attraction=CLICK)
                log = make_log(design, user, 1000, 100_000, seed)
                for method in ("auto", "swaps", "pairs", "em", "regression-em"):
                    estimate = pr.clicks.position_bias(log, method=method).examination
                    errors.setdefault(method, []).append(largest_error(estimate, truth))
                errors.setdefault("AllPairs", []).append(largest_error(all_pairs(log), truth))
            for method, values in errors.items():
                if np.isinf(values).all():
                    print(f"{design:11} {curve:12} {method:13} not identified", flush=True)
                    continue
                within = [float(np.mean(np.array(values) <= bar)) for bar in (0.05, 0.02)]
                rows.append(
                    {"design": design, "examination": curve, "method": method, "median": float(np.median(values))}
                )
                rows[-1] |= {"largest": max(values), "within 5 %": within[0], "within 2 %": within[1]}
                print(
                    f"{design:11} {curve:12} {method:13} largest error: median {np.median(values):6.1%}, worst of "
                    f"{seeds} seeds {max(values):6.1%}, at most 5 % in {within[0]:.0%} of them",
                    flush=True,
                )
    return rows


def coverage(n_logs: int) -> list[dict[str, Any]]:
    """Measure how often intervals contain the truth."""
    rows = []
    truth = CURVES["1/sqrt(k)"]
    user = pr.clicks.position_based(truth.tolist(), attraction=CLICK)
    for design in DESIGNS:
        covered: dict[str, list[Any]] = {}
        for seed in range(n_logs):
            log = make_log(design, user, 200, 10_000, seed)
            for method in ("auto", "swaps", "pairs", "pivot", "em"):
                bias = pr.clicks.position_bias(log, method=method)
                inside = (bias.low <= truth) & (truth <= bias.high)
                covered.setdefault(method, []).append(np.where(bias.identified, inside, np.nan)[1:])
        for method, values in covered.items():
            table = np.array(values, float)
            if np.isnan(table).all():
                print(f"{design:11} {method:6} not identified", flush=True)
                continue
            counts = np.sum(~np.isnan(table), axis=0)
            shares = np.nansum(table, axis=0)[counts > n_logs // 2] / counts[counts > n_logs // 2]
            rows.append(
                {"design": design, "method": method, "lowest": float(shares.min()), "mean": float(shares.mean())}
            )
            print(
                f"{design:11} {method:6} intervals contain the truth: {shares.mean():.1%} of {n_logs} logs, lowest of "
                f"{len(shares)} places {shares.min():.1%}",
                flush=True,
            )
    return rows


def others() -> list[dict[str, Any]]:
    """Show what is estimated from users who do not follow the model."""
    places = CURVES["1/sqrt(k)"]
    browsing = [np.append(places[k], np.maximum(places[k], 0.9 * places[k - np.arange(1, k + 1)])) for k in range(10)]
    users = {
        "trust bias": pr.clicks.trust_bias(places, 0.98 - 0.02 * PLACES, 0.3 * places, attraction=CLICK),
        "navigational": pr.clicks.cascade(CLICK, STOP),
        "informational": pr.clicks.user("informational"),
        "user browsing": pr.clicks.ubm(browsing, attraction=CLICK),
    }
    rows = []
    for name, user in users.items():
        random = pr.clicks.position_bias(make_log("shuffle", user, 1000, 400_000, 99), method="swaps").examination
        for design in DESIGNS:
            log = make_log(design, user, 1000, 100_000, 0)
            for method in ("swaps", "pairs"):
                estimate = pr.clicks.position_bias(log, method=method).examination
                if np.isfinite(estimate).all():
                    apart = largest_error(estimate, random)
                    rows.append({"user": name, "design": design, "method": method, "apart": apart})
                    shown = " ".join(f"{value:.2f}" for value in estimate)
                    print(
                        f"{name:13} {design:11} {method:5} {shown}: at most {apart:.0%} from random order", flush=True
                    )
        print(f"{name:13} random order, 400,000 impressions {' '.join(f'{value:.2f}' for value in random)}", flush=True)
    return rows


def speed() -> list[dict[str, Any]]:
    """Time the estimates from a log in memory."""
    user = pr.clicks.position_based(CURVES["1/sqrt(k)"].tolist(), attraction=CLICK)
    log = make_log("fair pairs", user, 5000, 1_000_000, 0)
    rows = []
    for method in ("swaps", "pairs", "auto", "em"):
        times = []
        for _ in range(3):
            start = time.perf_counter(), time.process_time()
            pr.clicks.position_bias(log, method=method)
            times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
        best, cpu = min(times)
        rows.append({"method": method, "seconds": best, "cpu seconds": cpu})
        print(f"{method:5} 1,000,000 impressions of 10 documents: {best:.2f} s, {cpu:.2f} s of CPU time", flush=True)
    return rows


def main() -> None:
    """Run the sections that are named, by default all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=["error", "coverage", "others", "speed", []])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sections = options.sections or ["error", "coverage", "others", "speed"]
    results: dict[str, Any] = {}
    if "error" in sections:
        results["error"] = error(options.seeds)
    if "coverage" in sections:
        results["coverage"] = coverage(options.logs)
    if "others" in sections:
        results["others"] = others()
    if "speed" in sections:
        results["speed"] = speed()
    if options.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
