"""Learning from the clicks of simulated users: quality against PDGD and others, and time.

python benchmarks/clicks.py [quality] [rates] [others] [production] [speed] [--sets choice|confirmation|all]
    [--seeds 10] [--impressions 10000] [--json FILE] [--peer FOLDER]

Each learner shows lists of ten documents to a user, and learns from each list before it shows the next one. Queries are
drawn uniformly from one half of a set; the other half is held out. Shown: mean NDCG@10 of the lists as shown, with
exploration, over all impressions so far. Held out: NDCG@10 of the ranking without exploration, over queries that have
relevant documents. Differences are paired by seeds: the same for all learners. Intervals are of 95 % (Student's t).

The rule of `clicks` was chosen on the sets "choice", and confirmed on the others.

users        cascade users of the literature, who may stop after a click ("click"), or after any document ("any"), and a
             user who examines place k with probability 1/k and clicks like the navigational one
quality      `clicks` against PDGD as published: rate .1, decay .9999977, features scaled to [0, 1] within the query
rates        PDGD at five rates, on these features and on ours; the best of the ten in hindsight for each cell
others       the other click learners, and clicks taken as grades
production   a start from a ranker learned from the grades of 1 % of the queries: shown, against showing its ranking
speed        microseconds for an impression, features ready: scores, drawing and learning; and how many more impressions
             than a public implementation of PDGD, HarrieO/OnlineLearningToRank, if --peer names a checkout of it
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from real_streams import FOLDER
from scipy import stats

import perceptrank as pr
from perceptrank.clicks.policies import DRAWN, NONE, PAIRS, draw_lists
from perceptrank.clicks.users.scanning import CASCADES
from perceptrank.kernels.scoring import score_rows
from perceptrank.kernels.scratch import borrow_scratch
from perceptrank.learners.clicks.impression import AT, CHANCE, CLICK, KIND, N_ANSWERS, PAIRS_FROM_2, SEEN
from perceptrank.learners.learning import advance, learn_query
from perceptrank.learners.tally import UPDATES
from perceptrank.measures.gains import discounts
from perceptrank.transforms.registry import make_transforms

Floats = npt.NDArray[np.float64]
CHOICE = ("MQ2008 train", "MSLR", "teacher on MQ2008")
CONFIRMATION = ("Yahoo", "IMAT2009", "MQ2008 test, vali", "teacher on Yahoo", "MSLR-shaped")
USERS = [("perfect", "click")] + [
    (name, stop) for name in ("navigational", "informational", "almost-random") for stop in ("click", "any")
]
USERS += [("position-based", "")]
RATES = (0.01, 0.03, 0.1, 0.3, 1.0)
N_SHOWN = 10


@dataclass
class Set:
    """A graded set: features as ours ("auto") and as PDGD has them ("minmax"), split into two halves."""

    features: dict[str, Floats]
    grades: Floats
    offsets: npt.NDArray[np.int64]
    train: npt.NDArray[np.int64]
    test: npt.NDArray[np.int64]
    ideal: Floats

    @classmethod
    def of(cls, stream: pr.QueryStream) -> "Set":
        """Transform the features, and split."""
        offsets = np.asarray(stream.offsets)
        grades = np.clip(np.rint(stream.relevance), 0, 4)
        features = {}
        for name, transform in (("auto", "auto"), ("minmax", "query-minmax")):
            X = np.asarray(stream.X, np.float64)
            for each in make_transforms(transform):
                X = each.learn_and_apply(X, offsets)
            X = np.asarray(X, np.float64)
            features[name] = np.ascontiguousarray(X[:, X.any(axis=0)])  # features that are always 0 change nothing
        order = np.random.default_rng(0).permutation(len(offsets) - 1)
        half, sizes = len(order) // 2, np.diff(offsets)
        ideal = np.zeros(len(order))
        for q in range(len(order)):
            gains = np.sort(2.0 ** grades[offsets[q] : offsets[q + 1]] - 1)[::-1][:N_SHOWN]
            ideal[q] = gains @ discounts(N_SHOWN)[: len(gains)]
        train = order[:half][sizes[order[:half]] > 1]
        return cls(features, grades, offsets, train, order[half:][ideal[order[half:]] > 0], ideal)

    def held_out(self, kind: str, weights: Floats) -> float:
        """Return the mean NDCG@10 of held-out queries."""
        scores = self.features[kind] @ weights
        values = pr.NDCG(N_SHOWN, ties="stable").per_query(scores, self.grades, self.offsets)
        return float(values[self.test].mean())


def load_sets(names: tuple[str, ...]) -> Iterator[tuple[str, Set]]:
    """Yield the sets by name."""

    def real(*parts: str) -> pr.QueryStream:
        return pr.QueryStream.concatenate([pr.read_letor(FOLDER / part) for part in parts])

    mq = "mq2008-fold1/{}.txt.gz"
    makers: dict[str, Callable[[], Any]] = {
        "MQ2008 train": lambda: real(mq.format("train")),
        "MSLR": lambda: real("mslr-sample/mslr_sample.txt.gz"),
        "teacher on MQ2008": lambda: next(iter(pr.teacher_stream(real(mq.format("train")), 1500, seed=1))),
        "Yahoo": lambda: real("yahoo-sample/train.txt.gz"),
        "IMAT2009": lambda: real("imat2009-sample/imat2009_learning.txt.gz"),
        "MQ2008 test, vali": lambda: real(mq.format("test"), mq.format("vali")),
        "teacher on Yahoo": lambda: next(iter(pr.teacher_stream(real("yahoo-sample/train.txt.gz"), 1500, seed=2))),
        "MSLR-shaped": lambda: pr.mslr_shaped(300, n_documents=40, seed=3),
    }
    for name in names:
        yield name, Set.of(makers[name]())


def tables_of(user: tuple[str, str], grades: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the probabilities of a click, and of stopping with and without one, by grade; and of examination."""
    name, stop = user
    n_grades = 5 if grades.max() > 2 else 3 if grades.max() > 1 else 2
    if name == "position-based":
        attraction = np.array(CASCADES["navigational"][n_grades][0])
        return attraction, np.zeros(n_grades), np.zeros(n_grades), 1 / np.arange(1, N_SHOWN + 1)
    attraction, stops = map(np.array, CASCADES[name][n_grades])
    return attraction, stops, stops if stop == "any" else np.zeros(n_grades), np.ones(N_SHOWN)


@numba.njit
def respond(shown: Any, grades: Floats, tables: Any, clicks: Floats, seen: Floats) -> None:
    """Simulate the clicks on a list."""
    attraction, stop_clicked, stop_skipped, examination = tables
    goes_on = True
    for p in range(len(shown)):
        grade = int(grades[shown[p]])
        seen[p] = 1.0 if goes_on and np.random.random() < examination[p] else 0.0  # noqa: NPY002
        clicks[p] = 1.0 if seen[p] == 1.0 and np.random.random() < attraction[grade] else 0.0  # noqa: NPY002
        stop = stop_clicked[grade] if clicks[p] == 1.0 else stop_skipped[grade]
        goes_on = goes_on and np.random.random() >= stop  # noqa: NPY002


@numba.njit
def interact(
    learn: Any, settings: Any, data: Any, queries: Any, tables: Any, policy: int, sharp: Any, state: Any, values: Any
) -> None:
    """Show a list for each query, and learn from its clicks."""
    X, grades, offsets, ideal, discount = data
    core, counts, scratch, room = state
    scores, keys, answers, order, chances, clicks, seen, predicted, mass = room
    ends, bounds, by_mean = np.empty(1, np.int64), np.zeros(2, np.int64), settings[0][0] and policy == NONE
    for t in range(len(queries)):
        start = offsets[queries[t]]
        m = offsets[queries[t] + 1] - start
        weights = core[1] if by_mean else core[0]  # the order of scores by the sum of iterates is that by their mean
        score_rows(X, start, start + m, weights, scores)
        if sharp[0] > 0.0:  # `ClickPerceptron.sharpness`, in units of the spread
            mean, spread = 0.0, 0.0
            for i in range(m):
                mean += scores[i] / m
            for i in range(m):
                spread += (scores[i] - mean) ** 2 / m
            sure = counts[-2][0] / math.sqrt(counts[-2][1]) if counts[-2][1] > 0.0 else 0.0
            kappa = sharpness(core[2][UPDATES], sure, sharp[1])
            for i in range(m):
                scores[i] = kappa * (scores[i] - mean) / math.sqrt(spread) if spread > 0.0 else 0.0
        k, ends[0] = min(m, order.shape[1]), m
        for i in range(m):
            keys[i] = scores[i] - (math.log(-math.log(1.0 - np.random.random())) if policy == DRAWN else 0.0)  # noqa: NPY002
        order[0, :] = -1
        draw_lists(scores[:m], keys[:m], ends, order, chances)
        kind, first = NONE, 0
        if policy == DRAWN:
            kind = DRAWN
        elif policy == PAIRS:
            first = 0 if np.random.random() < 0.5 else 1  # noqa: NPY002
            kind = PAIRS if first == 0 else PAIRS_FROM_2
        for p in range(k if policy != DRAWN else 0):
            chances[0, p] = 1.0
        for p in range(first, k - 1 if policy == PAIRS else 0, 2):
            chances[0, p], chances[0, p + 1] = 0.5, 0.5
            if np.random.random() < 0.5:  # noqa: NPY002
                order[0, p], order[0, p + 1] = order[0, p + 1], order[0, p]
        shown = order[0, :k]
        respond(shown, grades[start : start + m], tables, clicks, seen)
        value = 0.0
        for i in range(m):
            answers[i, AT], answers[i, CLICK], answers[i, SEEN], answers[i, CHANCE] = 0.0, 0.0, np.nan, np.nan
            answers[i, KIND] = kind
        for p in range(k):
            i = shown[p]
            value += (2.0 ** grades[start + i] - 1.0) * discount[p]
            answers[i, AT], answers[i, CLICK], answers[i, SEEN] = p + 1.0, clicks[p], seen[p]
            answers[i, CHANCE] = chances[0, p]
        values[t] = value / ideal[queries[t]] if ideal[queries[t]] > 0.0 else np.nan
        bounds[1], mass[0] = m, 1.0
        block = X[start : start + m], answers[:m], bounds, discount
        learn(settings, block, core, counts, (predicted[:m], mass), scratch)


@numba.njit
def sharpness(n: float, sure: float, before: float) -> float:
    """Return what `ClickPerceptron.sharpness` does."""
    if before > 0.0:
        return (before + (n * (1.0 - 9.0 / sure**2) if sure > 3.0 else 0.0)) ** (1 / 3)
    return min(n ** (1 / 3) / 2, 2.0 + max(0.0, sure))


@dataclass
class Contender:
    """A learner, with the features that it takes and the policy that shows its lists."""

    learner: pr.Learner
    features: str
    policy: int = DRAWN

    def run(
        self, data: Set, user: tuple[str, str], marks: list[int], seed: int, X: Floats | None = None
    ) -> tuple[Floats, list[float]]:
        """Return NDCG@10 of every list shown, and of held-out queries after some numbers of impressions."""
        X = data.features[self.features] if X is None else X
        learner, longest = self.learner, int(np.diff(data.offsets).max())
        width = data.features[self.features].shape[1]
        numba_seed(seed)
        queries = np.random.default_rng([seed, 7]).choice(data.train, size=marks[-1])
        model = begun(learner, X)
        counts = tuple(values for name, values in model.more.items() if name != "squares")
        room = (np.empty(longest), np.empty(longest), np.empty((longest, N_ANSWERS)), np.zeros((1, N_SHOWN), np.int64))
        room += (np.ones((1, N_SHOWN)), np.empty(N_SHOWN), np.empty(N_SHOWN), np.empty(longest), np.empty(1))
        scratch = borrow_scratch(longest, X.shape[1], *learner.kernel.rows)
        sharp = np.zeros(2)
        if isinstance(learner, pr.ClickPerceptron):
            sharp[:] = 1.0, 0.0 if learner.production is None else learner.evidence
        arrays = X, data.grades, data.offsets, data.ideal, discounts(longest + N_SHOWN)
        shown, held, first = np.empty(marks[-1]), [], 0
        for mark in marks:
            state = model.core, counts, scratch, room
            interact(
                learner.kernel.function,
                learner._settings,
                arrays,
                queries[first:mark],
                tables_of(user, data.grades),
                self.policy,
                sharp,
                state,
                shown[first:mark],
            )
            held.append(data.held_out(self.features, model.coefficients) if X.shape[1] == width else np.nan)
            first = mark
        return shown, held


@numba.njit
def numba_seed(seed: int) -> None:
    """Seed the random numbers of compiled code."""
    np.random.seed(seed)  # noqa: NPY002


def begun(learner: pr.Learner, X: Floats) -> Any:
    """Return a model of the learner that has begun, and learned nothing."""
    fresh = type(learner)(**learner.get_params(deep=False))
    answers = np.zeros((1, N_ANSWERS))
    advance(fresh, learn_query, X[:1], None, answers, 0.0)
    return fresh.model.copy()


def clicks() -> Contender:
    return Contender(pr.ClickPerceptron(transforms=None), "auto")


def pdgd(rate: float = 0.1, features: str = "minmax") -> Contender:
    return Contender(pr.PDGD(rate, transforms=None), features)


def check() -> None:
    """Raise unless the compiled loop does what `show` and `learn_clicks` do."""
    data = Set.of(pr.mslr_shaped(40, n_documents=12, n_features=6, seed=5))
    for contender in (clicks(), pdgd()):
        means = []
        for seed in range(40):
            shown, _ = contender.run(data, ("navigational", "click"), [60], seed)
            means.append(np.nanmean(shown))
        X = data.features[contender.features]
        train = [slice(data.offsets[q], data.offsets[q + 1]) for q in data.train]
        stream = pr.QueryStream.from_arrays(
            np.concatenate([X[rows] for rows in train]),
            np.concatenate([data.grades[rows] for rows in train]),
            group=[rows.stop - rows.start for rows in train],
        )
        others = []
        for seed in range(40):
            learner = type(contender.learner)(**contender.learner.get_params(deep=False))
            user = pr.clicks.user("navigational")
            others.append(pr.learn_from_user(learner, stream, user, 60, seed=seed).mean("ndcg@10"))
        if stats.ttest_ind(means, others).pvalue < 1e-4:
            found = f"{np.mean(means):.4f} and {np.mean(others):.4f}"
            raise SystemExit(f"{contender.learner}: the compiled loop and the learner differ, {found}")


def paired(differences: Floats) -> tuple[float, float]:
    """Return the mean of differences over seeds, and half the width of its interval of 95 %."""
    half = stats.t.ppf(0.975, len(differences) - 1) * differences.std(ddof=1) / math.sqrt(len(differences))
    return float(differences.mean()), float(half)


def marks_up_to(impressions: int) -> list[int]:
    return [n for n in (100, 1000, 10_000, 100_000) if n <= impressions] or [impressions]


def run_all(contender: Contender, data: Set, user: tuple[str, str], marks: list[int], seeds: int) -> Floats:
    """Return shown (mean so far) and held-out NDCG@10, for each seed and number of impressions."""
    rows = []
    for seed in range(seeds):
        shown, held = contender.run(data, user, marks, seed)
        rows.append([[np.nanmean(shown[:n]) for n in marks], held])
    return np.array(rows)


def name_of(user: tuple[str, str]) -> str:
    return " ".join(user).strip()


def quality(names: tuple[str, ...], seeds: int, impressions: int) -> list[dict[str, Any]]:
    """Compare `clicks` with PDGD as published."""
    marks, rows = marks_up_to(impressions), []
    print(f"\nclicks minus PDGD as published, NDCG@10, {seeds} seeds (interval of 95 %)")
    print(f"{'':18} {'':22} " + " ".join(f"{'shown':>8} {n:<9,} {'held out':>8} {n:<9,}" for n in marks))
    for name, data in load_sets(names):
        for user in USERS:
            ours, theirs = (run_all(each, data, user, marks, seeds) for each in (clicks(), pdgd()))
            cells = []
            for i, n in enumerate(marks):
                for j, what in enumerate(("shown", "held out")):
                    mean, half = paired(ours[:, j, i] - theirs[:, j, i])
                    row = {"set": name, "user": name_of(user), "impressions": n, "what": what, "difference": mean}
                    rows.append(row | {"half": half, "clicks": ours[:, j, i].mean(), "pdgd": theirs[:, j, i].mean()})
                    cells.append(f"{mean:+.4f} ± {half:.4f} ")
            print(f"{name:18} {name_of(user):22} " + " ".join(f"{cell:>18}" for cell in cells), flush=True)
    print_summary(rows, marks)
    return rows


def print_summary(rows: list[dict[str, Any]], marks: list[int]) -> None:
    for random in (False, True):
        for n in marks:
            for what in ("shown", "held out"):
                cells = [
                    row
                    for row in rows
                    if row["impressions"] == n and row["what"] == what and row["user"].startswith("almost") >= random
                ]
                ahead = sum(row["difference"] > 0 for row in cells)
                sure = sum(row["difference"] > row["half"] for row in cells)
                behind = sum(row["difference"] < -row["half"] for row in cells)
                mean = np.mean([row["difference"] for row in cells])
                whom = "almost random users" if random else "all users"
                print(
                    f"{whom:20} {what:8} {n:7,} impressions: ahead in {ahead} of {len(cells)} cells, significantly in "
                    f"{sure}, significantly behind in {behind}; mean difference {mean:+.4f}"
                )


def rates(names: tuple[str, ...], seeds: int, impressions: int) -> list[dict[str, Any]]:
    """Compare `clicks` with the best rate of PDGD in hindsight, on either features."""
    marks, rows = [impressions], []
    print(f"\nclicks minus the best of {2 * len(RATES)} settings of PDGD in hindsight, {impressions:,} impressions")
    for name, data in load_sets(names):
        for user in USERS:
            ours = run_all(clicks(), data, user, marks, seeds)[:, :, 0]
            settings = {(rate, kind): pdgd(rate, kind) for rate in RATES for kind in ("minmax", "auto")}
            found = {key: run_all(each, data, user, marks, seeds)[:, :, 0] for key, each in settings.items()}
            for j, what in enumerate(("shown", "held out")):
                best = max(found, key=lambda key: found[key][:, j].mean())
                mean, half = paired(ours[:, j] - found[best][:, j])
                row = {"set": name, "user": name_of(user), "what": what, "difference": mean, "half": half, "best": best}
                means = {f"{rate:g} {kind}": values[:, j].mean() for (rate, kind), values in found.items()}
                rows.append(row | {"impressions": impressions, "clicks": ours[:, j].mean(), "pdgd": means})
                found_best = f"best {best[0]:g} {best[1]}"
                print(f"{name:18} {name_of(user):22} {what:8} {mean:+.4f} ± {half:.4f}  {found_best}", flush=True)
    print_summary(rows, marks)
    for kind in ("minmax", "auto"):
        for rate in RATES:
            means = [row["clicks"] - row["pdgd"][f"{rate:g} {kind}"] for row in rows if row["what"] == "shown"]
            held = [row["clicks"] - row["pdgd"][f"{rate:g} {kind}"] for row in rows if row["what"] == "held out"]
            print(f"against rate {rate:<5g} on {kind:7}: shown {np.mean(means):+.4f}, held out {np.mean(held):+.4f}")
    return rows


def others(names: tuple[str, ...], seeds: int, impressions: int) -> list[dict[str, Any]]:
    """Compare all click learners."""
    policies = {"3pr": PAIRS, "fair-pairs": PAIRS, "ips-listwise": NONE, "examined": NONE}
    contenders = {"clicks": clicks(), "pdgd as published": pdgd()}
    for name, kind in pr.algorithms(clicks=True).items():
        if name in policies:
            contenders[name] = Contender(kind(transforms=None), "auto", policies[name])
    rows = []
    print(f"\nShown / held-out NDCG@10 after {impressions:,} impressions: {', '.join(names)}, {seeds} seeds")
    sets = dict(load_sets(names))
    print(f"{'':20}" + "".join(f"{name_of(user)[:19]:>20}" for user in USERS))
    for name, contender in contenders.items():
        cells = []
        for user in USERS:
            runs = [run_all(contender, data, user, [impressions], seeds) for data in sets.values()]
            found = np.mean([run.mean(axis=0)[:, 0] for run in runs], axis=0)
            rows.append({"learner": name, "user": name_of(user), "shown": found[0], "held out": found[1]})
            cells.append(f"{found[0]:.3f} / {found[1]:.3f}")
        print(f"{name:20}" + "".join(f"{cell:>20}" for cell in cells), flush=True)
    return rows


def production(names: tuple[str, ...], seeds: int, impressions: int) -> list[dict[str, Any]]:
    """Start from a ranker learned from 1 % of the queries, and compare with showing its ranking."""
    rows = []
    print(
        "\nShown NDCG@10 against production's, in percent of it; lowest: over all prefixes of 500 impressions or more"
    )
    print(f"{'':18} {'':22} {'production':>10} {'lowest':>8} {'at the end':>10}")
    for name, data in load_sets(names):
        X = data.features["auto"]
        for user in USERS:
            worst, last, level = [], [], []
            for seed in range(seeds):
                score = production_score(data, seed)
                own = own_ndcg(data, score)
                contender = Contender(pr.ClickPerceptron(production=X.shape[1], transforms=None), "auto")
                shown, _ = contender.run(data, user, [impressions], seed, X=np.column_stack([X, score]))
                queries = np.random.default_rng([seed, 7]).choice(data.train, size=impressions)
                counted = ~np.isnan(shown)
                ours, theirs = np.cumsum(np.nan_to_num(shown)), np.cumsum(np.where(counted, own[queries], 0.0))
                ratio = 100 * (ours[499:] / theirs[499:] - 1)
                worst.append(ratio)
                last.append(ratio[-1])
                level.append(np.nanmean(own[data.train]))
            lowest = float(np.min(np.mean(worst, axis=0)))
            row = {"set": name, "user": name_of(user), "production": np.mean(level), "lowest": lowest}
            rows.append(row | {"last": np.mean(last), "lowest of one seed": float(np.min(worst))})
            means = f"{np.mean(level):10.3f} {lowest:+8.2f} {np.mean(last):+10.2f}"
            print(f"{name:18} {name_of(user):22} {means}", flush=True)
    return rows


def production_score(data: Set, seed: int) -> Floats:
    """Return z-scores within queries of a ranker that was learned from the grades of 1 % of the queries."""
    rng = np.random.default_rng([seed, 11])
    graded = rng.choice(data.train, size=max(3, len(data.train) // 100), replace=False)
    rows = [slice(data.offsets[q], data.offsets[q + 1]) for q in graded]
    X = data.features["auto"]
    ranker = pr.ListwisePerceptron(transforms=None)
    ranker.learn(
        pr.QueryStream.from_arrays(
            np.concatenate([X[each] for each in rows]),
            np.concatenate([data.grades[each] for each in rows]),
            group=[each.stop - each.start for each in rows],
        )
    )
    return np.ravel(pr.QueryZScore().learn_and_apply((X @ ranker.coef_)[:, None], data.offsets))


def own_ndcg(data: Set, scores: Floats) -> Floats:
    """Return NDCG@10 of each query ranked by scores; NaN without relevant documents."""
    values = pr.NDCG(N_SHOWN, ties="stable").per_query(scores, data.grades, data.offsets)
    return np.where(data.ideal > 0, values, np.nan)


def speed(peer: str | None) -> list[dict[str, Any]]:
    """Measure the time for an impression."""
    rows = []
    for m, d in ((20, 46), (120, 136)):
        rng = np.random.default_rng(0)
        X, grades = rng.normal(size=(200 * m, d)), rng.integers(0, 5, size=200 * m)
        data = Set.of(pr.QueryStream.from_arrays(X, grades, group=[m] * 200))
        for name, contender in {"clicks": clicks(), "pdgd": pdgd()}.items():
            contender.run(data, USERS[1], [1000], 0, X=X)
            seconds = []
            for _ in range(5):
                start = time.perf_counter()
                contender.run(data, USERS[1], [20_000], 0, X=X)
                seconds.append((time.perf_counter() - start) / 20_000)
            rows.append({"learner": name, "documents": m, "features": d, "microseconds": 1e6 * min(seconds)})
            print(f"{name:7} {m:3} x {d:3}: {1e6 * min(seconds):6.2f} µs an impression", flush=True)
            if peer and name == "pdgd":
                rows.append(peer_speed(peer, data, X, min(seconds)))
    return rows


def peer_speed(peer: str, data: Set, X: Floats, ours: float) -> dict[str, Any]:
    """Time a public implementation of PDGD on the same lists."""
    sys.path.insert(0, str(Path(peer)))
    from algorithms.PDGD import pdgd as peer_module

    ranker = peer_module.PDGD(0.1, 0.9999977, n_results=N_SHOWN, n_features=X.shape[1])
    rng = np.random.default_rng(0)
    queries = [X[data.offsets[q] : data.offsets[q + 1]] for q in data.train]
    clicks = rng.random((2000, N_SHOWN)) < 0.3
    start = time.perf_counter()
    for t in range(2000):
        ranker._create_train_ranking(0, queries[t % len(queries)], inverted=False)
        ranker.update_to_interaction(clicks[t, : len(ranker.ranking)])
    theirs = (time.perf_counter() - start) / 2000
    print(f"   a public PDGD: {1e6 * theirs:8.1f} µs, {theirs / ours:.0f} times as long", flush=True)
    return {"peer": "HarrieO/OnlineLearningToRank", "microseconds": 1e6 * theirs, "ratio": theirs / ours}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parts = ("quality", "rates", "others", "production", "speed")
    parser.add_argument("parts", nargs="*", default=["quality"])
    parser.add_argument("--sets", choices=("choice", "confirmation", "all"), default="all")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--impressions", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peer")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(parts):
        parser.error(f"parts must be among {', '.join(parts)}, got {', '.join(sorted(unknown))}")
    names = {"choice": CHOICE, "confirmation": CONFIRMATION, "all": CHOICE + CONFIRMATION}[options.sets]
    check()
    results: dict[str, Any] = {}
    for part in options.parts:
        if part == "speed":
            results[part] = speed(options.peer)
        else:
            results[part] = globals()[part](names, options.seeds, options.impressions)
    if options.json:
        options.json.write_text(json.dumps(results, default=float, indent=1))


if __name__ == "__main__":
    main()
