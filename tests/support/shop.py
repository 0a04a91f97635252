"""The files of a small shop: what the pages of the documentation learn from, and what they compare with."""

import json
from pathlib import Path

import numpy as np

import perceptrank as pr

FEATURES = ("title_bm25", "body_bm25", "price", "age", "in_stock", "clicks")
WEIGHTS = {"title_bm25": 1.0, "body_bm25": 0.2, "price": -0.01}  # what the shop ranks with today
CATEGORIES = ("shoes", "coats", "hats")


def judged(n_queries, seed, first=1):
    """A stream of queries of 6 to 10 products, graded 0 to 4, ids from `first`; none of two streams share a seed."""
    rng = np.random.default_rng([2026, seed])
    sizes = rng.integers(6, 11, size=n_queries)
    n = int(sizes.sum())
    X = np.column_stack(
        [
            rng.gamma(2.0, 2.0, n),
            rng.gamma(2.0, 3.0, n),
            np.round(rng.lognormal(3.0, 0.8, n), 2),
            rng.integers(0, 365, n),
            rng.random(n) < 0.8,
            rng.poisson(rng.gamma(1.0, 20.0, n)),
        ]
    ).round(4)
    wanted = X @ [0.35, 0.05, -0.01, -0.001, 1.5, 0.03] + 0.7 * rng.normal(size=n)
    grades = np.clip(np.floor(1.1 * wanted - 2.0), 0, 4)
    return pr.QueryStream(
        X.astype(np.float32),
        grades,
        np.concatenate([[0], np.cumsum(sizes)]),
        qids=np.arange(first, first + n_queries),
        feature_names=FEATURES,
        docids=[f"p{place}" for size in sizes for place in range(1, size + 1)],
    )


def write_hits(folder: Path) -> None:
    """Write what the clauses of a hybrid query returned, grades of most of that, and the pipeline in use."""
    rng = np.random.default_rng([2026, 100])
    pipeline = {"normalization": {"technique": "min_max"}, "combination": {"technique": "arithmetic_mean"}}
    pipeline["combination"]["parameters"] = {"weights": [0.7, 0.3]}
    body = {"phase_results_processors": [{"normalization-processor": pipeline}]}
    (folder / "pipeline.json").write_text(json.dumps(body, indent=1) + "\n")
    with (folder / "hits.csv").open("w") as grades, (folder / "clauses.jsonl").open("w") as clauses:
        grades.write("query,docid,rating\n")
        for number in range(1, 301):
            worth = rng.normal(size=40)
            text = np.exp(0.5 * (worth + 1.2 * rng.normal(size=40)) + 1.5)
            vector = 1.0 / (1.0 + np.exp(-0.6 * (worth + 0.5 * rng.normal(size=40))))
            scores = {"text": text.round(4), "vector": vector.round(5)}
            best = {name: set(np.argsort(-values)[:15].tolist()) for name, values in scores.items()}
            for place in sorted(best["text"] | best["vector"]):
                key = {"query": f"query {number}", "docid": f"p{place}"}
                own = {name: float(scores[name][place]) for name in scores if place in best[name]}
                clauses.write(json.dumps(key | {"features": own}) + "\n")
                if rng.random() < 0.8:
                    grade = int(np.digitize(worth[place], [0.8, 1.4, 2.0]))
                    grades.write(f"{key['query']},{key['docid']},{grade}\n")


def make_shop(folder: Path) -> None:
    """Write all files of the shop to an empty folder."""
    train, test = judged(60, 1), judged(30, 2, first=1)
    pr.write_letor(train, folder / "train.txt")
    pr.write_letor(train, folder / "train.txt.gz")
    pr.write_letor(test, folder / "test.txt")
    pr.write_letor(test, folder / "test.txt.gz")
    pr.write_store(train, folder / "train.store")
    days = [judged(40, 10 + day, first=1000 * day) for day in (1, 2, 3)]
    for day, stream in enumerate(days, start=1):
        frame = stream.to_frame("polars")
        categories = [CATEGORIES[qid % len(CATEGORIES)] for qid in frame["qid"]]
        frame = frame.with_columns(category=np.array(categories))
        frame.write_parquet(folder / f"day{day}.parquet")
    frame.write_csv(folder / "day3.csv")
    with (folder / "judgements.csv").open("w") as grades, (folder / "features.jsonl").open("w") as features:
        grades.write("qid,docid,relevance\n")
        for query in days[0]:
            for row, docid in enumerate(query.docids):
                grades.write(f"{query.qid},{docid},{query.relevance[row]:.0f}\n")
                values = dict(zip(FEATURES, query.X[row].tolist(), strict=True))
                line = {"qid": int(query.qid), "docid": docid, "features": values}
                features.write(json.dumps(line) + "\n")
    write_hits(folder)
    (folder / "weights.json").write_text(json.dumps(WEIGHTS) + "\n")
    now, model, new = pr.FixedRanker(WEIGHTS), pr.ListwisePerceptron(), pr.ListwisePerceptron(transforms="running")
    for name, ranker in {"now": now, "model": model, "new": new}.items():
        ranker.learn(days[0])
        ranker.save(folder / f"{name}.json")
