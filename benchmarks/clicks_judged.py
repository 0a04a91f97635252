"""Judgements from clicks: coverage of their intervals, and rank correlation with true grades beside other tools.

python benchmarks/clicks_judged.py [coverage] [correlation] [--seeds 5] [--queries 500] [--users NAME ...] [--json]

All logs are simulated: queries of documents with grades 0 to 4, ranked by the grade with noise, shown with fair pairs.
Everything is estimated from the log alone, the position bias too.

coverage: the share of intervals of 95 % that contain the true click probability, for each number of places, number of
impressions a query and seed: under a position-based user, whose model it is, and under four others.

correlation: the mean over queries of Kendall's tau-b, Spearman's rho and Somers' D between estimates and grades, at 100
impressions a query. Somers' D counts pairs of documents whose grades differ, whatever ties there are otherwise: tau-b
and rho also reward ties between documents of one grade, which click rates have where nothing was clicked. PyClick is
https://github.com/markovi/PyClick, which has no package (PyPI's pyclick moves the mouse): if PYTHONPATH names a copy,
its models learn from the same logs, with their own settings. pyClickModels has no wheels for Python 3.9 or later.
"""

import argparse
import importlib
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import kendalltau, somersd, spearmanr

import perceptrank as pr

CLICK = [0.05, 0.3, 0.5, 0.7, 0.95]  # probability of a click on what is seen, by grade
STOP = [0.2, 0.3, 0.5, 0.7, 0.9]
GRADES = [0.5, 0.25, 0.12, 0.08, 0.05]  # their shares
NOISES = {"strong": 1.0, "weak": 3.0}
PYCLICK = ("PBM", "UBM", "SDBN", "DCM")  # its DBN does not finish within minutes


def examination(n: int) -> list[float]:
    """Probability that each place is examined."""
    return [float(place) ** -0.8 for place in range(1, n + 1)]


def make_users(n: int) -> dict[str, tuple[pr.clicks.User, list[float]]]:
    """Users, and their probability of a click on a document that they see at the first place, by grade."""
    places = examination(n)
    # Whoever has clicked reads on from there.
    browsing = [[places[k], *(max(places[k], 0.9 * places[k - last]) for last in range(1, k + 1))] for k in range(n)]
    trust, mistake = [0.98 - 0.02 * k for k in range(n)], [0.3 * seen for seen in places]
    trusting = [float(a * trust[0] + (1 - a) * mistake[0]) for a in CLICK]
    return {
        "position-based": (pr.clicks.position_based(places, attraction=CLICK), CLICK),
        "trust bias": (pr.clicks.trust_bias(places, trust, mistake, attraction=CLICK), trusting),
        "user browsing": (pr.clicks.ubm(browsing, attraction=CLICK), CLICK),
        "navigational": (pr.clicks.cascade(CLICK, STOP), CLICK),
        "DBN": (pr.clicks.dbn(CLICK, STOP, continuation=0.9), CLICK),
    }


def make_queries(n_queries: int, n_documents: int, noise: float, seed: int) -> pr.QueryStream:
    """Graded queries with one feature, the grade with noise, by which they are ranked."""
    rng = np.random.default_rng([seed, 1])
    grades = rng.choice(5, size=n_queries * n_documents, p=GRADES).astype(float)
    X = (grades + noise * rng.normal(size=len(grades)))[:, None]
    docids = np.tile(np.arange(n_documents), n_queries)
    return pr.QueryStream.from_arrays(X, grades, group=[n_documents] * n_queries, docids=docids)


def make_log(queries: pr.QueryStream, user: pr.clicks.User, n: int, per_query: int, seed: int) -> pr.QueryStream:
    """Impressions of graded queries, with fair pairs."""
    impressions = per_query * len(queries)
    return pr.simulate_clicks(
        queries, user, ranker=[1.0], policy="fair-pairs", n=n, impressions=impressions, shown_only=True, seed=seed
    )


def find_grades(queries: pr.QueryStream) -> dict[tuple[str, str], float]:
    """True grades by query and document."""
    names = np.repeat([str(qid) for qid in queries.qids], np.diff(queries.offsets)).tolist()
    docids = [] if queries.docids is None else queries.docids.tolist()
    return dict(zip(zip(names, docids, strict=True), queries.relevance.tolist(), strict=True))


def coverage(seeds: int, n_queries: int, names: list[str]) -> list[dict[str, Any]]:
    """Share of intervals that contain the truth; identified documents only."""
    rows = []
    for n in (3, 10, 20):
        for name in names:
            user, truth = make_users(n)[name]
            for per_query in (20, 100, 500):
                shares, widths = [], []
                for seed in range(seeds):
                    queries = make_queries(n_queries, n + 5, NOISES["strong"], seed)
                    grades = find_grades(queries)
                    judged = pr.clicks.judgements(make_log(queries, user, n, per_query, seed))
                    pairs = zip(judged.query.tolist(), judged.docid.tolist(), strict=True)
                    true = np.array([truth[int(grades[pair])] for pair in pairs])
                    inside = (judged.low <= true) & (true <= judged.high)
                    shares.append(float(inside[judged.identified].mean()))
                    widths.append(float((judged.high - judged.low)[judged.identified].mean()))
                row = {"user": name, "places": n, "impressions a query": per_query, "lowest": min(shares)}
                rows.append(row | {"mean": float(np.mean(shares)), "width": float(np.mean(widths))})
                print(
                    f"{name:15} {n:3} places {per_query:4} impressions a query: lowest of {seeds} seeds "
                    f"{min(shares):.3f}, mean {np.mean(shares):.3f}, mean width {np.mean(widths):.2f}",
                    flush=True,
                )
    return rows


def correlate(grades: dict[tuple[str, str], float], estimates: dict[tuple[str, str], float]) -> list[float]:
    """Mean over queries of tau-b, rho and Somers' D; 0 for a query whose estimates are all the same."""
    queries: dict[str, list[tuple[float, float]]] = {}
    for (query, docid), estimate in estimates.items():
        queries.setdefault(query, []).append((grades[query, docid], estimate))
    values = []
    for pairs in queries.values():
        true, estimate = np.array(pairs).T
        if len(np.unique(true)) == 1:
            continue
        if len(np.unique(estimate)) == 1:
            values.append([0.0, 0.0, 0.0])
            continue
        values.append(
            [
                float(kendalltau(true, estimate).statistic),
                float(spearmanr(true, estimate).statistic),
                float(somersd(true, estimate).statistic),
            ]
        )
    return [float(value) for value in np.mean(values, axis=0)]


def judge(log: pr.QueryStream, model: Any) -> dict[tuple[str, str], float]:
    """Estimates of one of our models; 0 for what is not identified."""
    judged = pr.clicks.judgements(log, model)
    pairs = zip(judged.query.tolist(), judged.docid.tolist(), strict=True)
    return dict(zip(pairs, np.nan_to_num(judged.estimate).tolist(), strict=True))


def judge_by_pyclick(log: pr.QueryStream, name: str) -> dict[tuple[str, str], float]:
    """Relevance as a model of PyClick predicts it."""
    sessions, results = (
        getattr(importlib.import_module(f"pyclick.search_session.{kind}"), kind)
        for kind in ("SearchSession", "SearchResult")
    )
    texts: Any = log.columns["user_query"]
    assert log.place is not None
    assert log.clicked is not None
    assert log.docids is not None
    seen, lists = {}, []
    for query, start, stop in zip(texts.tolist(), log.offsets[:-1], log.offsets[1:], strict=True):
        session = sessions(query)
        ids = log.docids[start:stop].tolist()
        for k in np.argsort(log.place[start:stop]):
            session.web_results.append(results(ids[k], int(log.clicked[start + k])))
            seen[query, ids[k]] = 0.0
        lists.append(session)
    model = getattr(importlib.import_module(f"pyclick.click_models.{name}"), name)()
    model.train(lists)
    return {(query, docid): model.predict_relevance(query, docid) for query, docid in seen}


def find_judges() -> dict[str, Callable[[pr.QueryStream], dict[tuple[str, str], float]]]:
    """All that can be run here, by name."""
    judges: dict[str, Any] = {
        "perceptrank, position": lambda log: judge(log, "position"),
        "perceptrank, dbn": lambda log: judge(log, "dbn"),
        "perceptrank, cascade": lambda log: judge(log, "cascade"),
        "COEC as OpenSearch": lambda log: judge(log, "coec"),
        "click rate": lambda log: judge(log, "ctr"),
    }
    try:
        importlib.import_module("pyclick.search_session.SearchSession")
    except ImportError:
        print("PyClick is not there; see above")
        return judges
    for name in PYCLICK:
        judges[f"PyClick {name}"] = lambda log, name=name: judge_by_pyclick(log, name)
    return judges


def correlation(seeds: int, n_queries: int, names: list[str]) -> list[dict[str, Any]]:
    """Rank correlation of estimates with grades."""
    judges, rows = find_judges(), []
    for ranker, noise in NOISES.items():
        for name in names:
            user, logs = make_users(10)[name][0], []
            for seed in range(seeds):
                queries = make_queries(n_queries, 15, noise, seed)
                logs.append((find_grades(queries), make_log(queries, user, 10, 100, seed)))
            print(f"{name} user, {ranker} ranker: tau-b, rho, Somers' D")
            for label, run in judges.items():
                start = time.process_time()
                values = np.mean([correlate(grades, run(log)) for grades, log in logs], axis=0).tolist()
                seconds = (time.process_time() - start) / seeds
                rows.append({"user": name, "ranker": ranker, "judge": label, "values": values, "seconds": seconds})
                shown = "  ".join(f"{value:.3f}" for value in values)
                print(f"  {label:24} {shown}  ({seconds:.1f} s of CPU a log)", flush=True)
    return rows


def main() -> None:
    """Run the sections that are named, or both."""
    sections = {"coverage": coverage, "correlation": correlation}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[[], *sections], default=[])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--users", nargs="+", choices=list(make_users(1)), default=list(make_users(1)))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # of rank correlations
    results = {
        name: sections[name](arguments.seeds, arguments.queries, arguments.users)
        for name in arguments.sections or list(sections)
    }
    if arguments.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
