"""Clicks in the service: what its users see, whom it promotes, and what clicks taken as grades would have done.

python benchmarks/serving_clicks.py [shop] [promotions] [failure] [--impressions 20000] [--seeds 3] [--runs 1000]
    [--json FILE]

shop         A shop: queries with real documents are drawn uniformly, users click on what the service shows. It starts
             as an incumbent that was learned from the grades of 2 % of the queries, and learns with
             `--algorithm clicks --incumbent`. Judged NDCG@10 of what was shown, with exploration, cumulated, against
             showing the incumbent's ranking: lowest over all prefixes of 500 impressions or more, and at the end.
promotions   A/A runs: a challenger that is as good as the incumbent, and differs from it: both rank by relevance and
             noise of their own. How often it is ever promoted at an error rate of 0.05, in runs of 2,000 impressions;
             also for one that is worse. The comparison is the service's own code.
failure      Clicks sent as grades to POST /v1/learn, against the same users through POST /v1/clicks; the incumbent is
             good: learned from the grades of half of the queries.

Everything goes through `ServedRanker`, as over HTTP, but for `promotions`.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from real_streams import FOLDER

import perceptrank as pr
from perceptrank.serve import ServedRanker, Settings
from perceptrank.serve.documents import Arranged
from perceptrank.serve.learning import Answers
from perceptrank.serve.log.records import ImpressionEntry, as_bytes
from perceptrank.serve.shadow.evidence import click_values
from perceptrank.serve.shadow.shadow import Challenger

Floats = npt.NDArray[np.float64]
SETS = {
    "MQ2008": FOLDER / "mq2008-fold1" / "train.txt.gz",
    "MSLR": FOLDER / "mslr-sample" / "mslr_sample.txt.gz",
    "Yahoo": FOLDER / "yahoo-sample" / "train.txt.gz",
}
USERS = ("perfect", "navigational", "informational", "almost-random", "position-based")
BATCH = 20  # impressions between two rounds of learning, as if so many users were there at once
N_SHOWN = 10


def user_of(name: str, top: int) -> pr.clicks.User:
    """Return a user for grades from 0 to `top`."""
    if name == "position-based":
        navigational = np.interp(np.arange(top + 1) / top, np.linspace(0, 1, 5), [0.05, 0.3, 0.5, 0.7, 0.95])
        return pr.clicks.position_based(1 / np.arange(1, N_SHOWN + 1), attraction=navigational)
    return pr.clicks.user(name, grades=top + 1)


def load(name: str) -> pr.QueryStream:
    """Return a set: queries with at least two documents and one that is relevant."""
    stream = pr.read_letor(SETS[name])
    grades = np.clip(np.rint(stream.relevance), 0, 4)
    chosen = [
        q
        for q in range(len(stream))
        if grades[stream.offsets[q] : stream.offsets[q + 1]].max() > 0 and np.diff(stream.offsets)[q] > 1
    ]
    return stream[np.array(chosen)]


def incumbent_of(stream: pr.QueryStream, seed: int, share: float = 0.02) -> pr.Learner:
    """Return a decent ranker: learned from the grades of a share of the queries."""
    rng = np.random.default_rng([seed, 11])
    n = max(5, int(share * len(stream)))
    ranker = pr.ListwisePerceptron()
    ranker.learn(stream[rng.choice(len(stream), size=n, replace=False)])
    return ranker


def ndcg_of(order: list[int], grades: Floats) -> float:
    """Return NDCG@10 of a list as it is shown."""
    scores = np.zeros(len(grades))
    scores[order] = np.arange(len(order), 0, -1)
    return float(pr.NDCG(N_SHOWN)(scores, grades))


def run_shop(stream: pr.QueryStream, user: pr.clicks.User, impressions: int, seed: int) -> tuple[Floats, Floats]:
    """Return NDCG@10 of every list shown, and of the incumbent's ranking of the same query."""
    incumbent = incumbent_of(stream, seed)
    learner = pr.ClickPerceptron(production="score", transforms=[pr.ScoreOf(incumbent), "auto"])
    queries = np.random.default_rng([seed, 7]).integers(len(stream), size=impressions).tolist()
    clicking = np.random.default_rng([seed, 13])
    own = [
        ndcg_of(np.argsort(-incumbent.predict(query.X), kind="stable")[:N_SHOWN].tolist(), query.relevance)
        for query in stream
    ]
    documents = [[f"d{i}" for i in range(len(query.relevance))] for query in stream]
    shown = []
    with tempfile.TemporaryDirectory() as folder:
        ranker = ServedRanker(Path(folder) / "shop", learner, Settings(snapshot_seconds=1e9))
        for first in range(0, impressions, BATCH):
            together: list[Any] = []
            for q in queries[first : first + BATCH]:
                query = stream[q]
                ranked = ranker.rank(Arranged(documents[q], query.X, None))  # type: ignore[arg-type]
                order = [int(name[1:]) for name in ranked.order[: ranked.places]]
                shown.append(ndcg_of(order, query.relevance))
                clicked = user.click(np.rint(query.relevance[order]), clicking)
                ids = [f"d{row}" for row, click in zip(order, clicked, strict=True) if click]
                ranker.clicks(ranked.ranking_id, ids, together=together)
            ranker.submit(together)
            ranker.flush()
        ranker.close()
    return np.array(shown), np.array([own[q] for q in queries])


def shop(impressions: int, seeds: int) -> list[dict[str, Any]]:
    """Print what users see, against the incumbent."""
    rows = []
    print("\nShown NDCG@10 against the incumbent's, in percent; lowest over prefixes of 500 impressions or more")
    print(f"{'':8} {'':16} {'incumbent':>10} {'lowest':>8} {'of one seed':>12} {'at the end':>11} {'seconds':>8}")
    for name in SETS:
        stream = load(name)
        top = int(np.rint(stream.relevance.max()))
        for who in USERS:
            ratios, level, start = [], [], time.perf_counter()
            for seed in range(seeds):
                ours, theirs = run_shop(stream, user_of(who, top), impressions, seed)
                ratios.append(100 * (np.cumsum(ours)[499:] / np.cumsum(theirs)[499:] - 1))
                level.append(theirs.mean())
            seconds = time.perf_counter() - start
            row = {"set": name, "user": who, "incumbent": float(np.mean(level)), "seeds": seeds}
            row |= {"lowest": float(np.mean(ratios, axis=0).min()), "lowest of one seed": float(np.min(ratios))}
            rows.append(row | {"last": float(np.mean([each[-1] for each in ratios]))})
            print(
                f"{name:8} {who:16} {row['incumbent']:10.3f} {row['lowest']:+8.2f} {row['lowest of one seed']:+12.2f} "
                f"{rows[-1]['last']:+11.2f} {seconds:8.0f}",
                flush=True,
            )
    return rows


def duel(user: pr.clicks.User, noise: tuple[float, float], n: int, share: float, rng: np.random.Generator) -> bool:
    """Tell whether a challenger is promoted within n lists of either ranker, by fair pairs; `noise` is that of both."""
    m, k = 15, N_SHOWN
    relevance = np.clip(np.round(rng.normal(1.2, 1.2, (n, m))), 0, 4)
    scores = relevance + np.array(noise)[:, None, None] * rng.normal(size=(2, n, m))
    by = (rng.random(n) < share).astype(int)
    shown = pr.clicks.FairPairs().show(scores[by, np.arange(n)], k, rng)
    place, chance, clicked = np.zeros((n, m), np.int32), np.full((n, m), np.nan), np.zeros((n, m))
    rows = np.arange(n)[:, None]
    place[rows, shown.order], chance[rows, shown.order] = np.arange(1, k + 1), shown.propensity
    clicked[rows, shown.order] = user.click(relevance[rows, shown.order], rng)
    stream = pr.QueryStream.from_arrays(
        np.zeros((n * m, 1)),
        group=[m] * n,
        place=place.ravel(),
        clicked=clicked.ravel(),
        propensity=chance.ravel(),
        columns={"policy": list(shown.policy)},
    )
    measure = pr.parse("preferences")
    first, second = (click_values(measure, stream, each.ravel(), ranks=False) for each in scores)  # type: ignore[arg-type]
    chances = {"": 1 - share, "new": share}
    blank = ([0], [0], "", b"", 0, b"", b"", None)
    entries = [
        ImpressionEntry(0, "", "", ["a"], as_bytes([[0.0]]), b"", *blank, "new" if own else "", chances, 0, None)
        for own in by.tolist()
    ]
    weights = Answers(entries, [0] * n, None).weights("new", 0, measure, first, second)
    challenger = Challenger(pr.FixedRanker([1.0]), "preferences", 0, 1)
    for i in range(n):
        values = {measure: [first[i]]}, {measure: [second[i]]}
        challenger = challenger._compared([weights[i]], measure, *values)
        if challenger.is_better(0.05):
            return True
    return False


def promotions(runs: int) -> list[dict[str, Any]]:
    """Print how often challengers are promoted."""
    rows = []
    kinds = {"as good": (1.0, 1.0), "as good, noisy": (3.0, 3.0), "worse": (1.0, 2.0), "better": (2.0, 1.0)}
    print("\nRuns of 2,000 impressions with a promotion at an error rate of 0.05; every other list is the challenger's")
    print(f"{'':16}" + "".join(f"{kind:>16}" for kind in kinds))
    for who in USERS:
        cells = []
        for kind, noise in kinds.items():
            n_runs = runs if kind.startswith("as good") else max(20, runs // 20)
            rng = np.random.default_rng([3, len(rows)])
            n = sum(duel(user_of(who, 4), noise, 2000, 0.5, rng) for _ in range(n_runs))
            rows.append({"user": who, "challenger": kind, "promoted": n, "runs": n_runs})
            cells.append(f"{n} of {n_runs}")
        print(f"{who:16}" + "".join(f"{cell:>16}" for cell in cells), flush=True)
    return rows


def failure(impressions: int, seeds: int) -> list[dict[str, Any]]:
    """Print the judged NDCG@10 after clicks that were sent as grades, and after the same number through /v1/clicks."""
    rows = []
    print(f"\nJudged NDCG@10 of the ranking after {impressions:,} impressions, all queries, without exploration")
    print(f"{'':8} {'':16} {'incumbent':>10} {'as grades':>10} {'as clicks':>10}")
    for name in SETS:
        stream = load(name)
        top = int(np.rint(stream.relevance.max()))
        for who in USERS:
            found = np.array([_run_both(stream, user_of(who, top), impressions, seed) for seed in range(seeds)])
            means = found.mean(axis=0)
            rows.append({"set": name, "user": who, **dict(zip(("incumbent", "grades", "clicks"), means, strict=True))})
            print(f"{name:8} {who:16} " + " ".join(f"{value:10.3f}" for value in means), flush=True)
    return rows


def _run_both(stream: pr.QueryStream, user: pr.clicks.User, impressions: int, seed: int) -> list[float]:
    incumbent = incumbent_of(stream, seed, share=0.5)
    values = [pr.evaluate(incumbent, stream, "ndcg@10").mean("ndcg@10")]
    starts = {
        "grades": incumbent,
        "clicks": pr.ClickPerceptron(production="score", transforms=[pr.ScoreOf(incumbent), "auto"]),
    }
    documents = [[f"d{i}" for i in range(len(query.relevance))] for query in stream]
    for kind, start in starts.items():
        queries = np.random.default_rng([seed, 7]).integers(len(stream), size=impressions).tolist()
        clicking = np.random.default_rng([seed, 13])
        with tempfile.TemporaryDirectory() as folder:
            ranker = ServedRanker(Path(folder) / kind, start, Settings(snapshot_seconds=1e9))
            for first in range(0, impressions, BATCH):
                together: list[Any] = []
                for number, q in enumerate(queries[first : first + BATCH]):
                    query = stream[q]
                    arranged: Any = Arranged(documents[q], query.X, None)
                    ranked = ranker.rank(arranged)
                    order = [int(each[1:]) for each in ranked.order[:N_SHOWN]]
                    clicked = user.click(np.rint(query.relevance[order]), clicking)
                    grades = {f"d{row}": float(click) for row, click in zip(order, clicked, strict=True)}
                    if kind == "clicks":
                        ranker.clicks(ranked.ranking_id, grades, together=together)
                    else:
                        ranker.learn(arranged, grades, event_id=f"{first + number}", together=together)
                ranker.submit(together)
                ranker.flush()
            values.append(pr.evaluate(ranker.current.learner, stream, "ndcg@10").mean("ndcg@10"))
            ranker.close()
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ("shop", "promotions", "failure")
    parser.add_argument("parts", nargs="*", default=parts)
    parser.add_argument("--impressions", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found: dict[str, Any] = {}
    if "shop" in given.parts:
        found["shop"] = shop(given.impressions, given.seeds)
    if "promotions" in given.parts:
        found["promotions"] = promotions(given.runs)
    if "failure" in given.parts:
        found["failure"] = failure(min(given.impressions, 5000), given.seeds)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
