"""A simulated shop whose users click, learned from in two ways: clicks taken as grades, and clicks debiased.

Today's ranker puts new products first, which users do not care about, and one user in k looks at place k. A coin swaps
neighbours in each list. Both learners read the same log; users click by true grades, which only measures see.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from perceptrank.clicks.simulation import simulate_clicks
from perceptrank.clicks.users.by_place import position_based
from perceptrank.evaluation.plots import Chart, Series
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.learners.clicks.perceptron import ClickPerceptron
from perceptrank.learners.fixed import FixedRanker
from perceptrank.learners.learner import Learner
from perceptrank.learners.listwise import ListwisePerceptron
from perceptrank.measures import parse
from perceptrank.paper.curves import means_with_spread
from perceptrank.paper.walkthrough import ranking
from perceptrank.stream.query_stream import QueryStream

N_PRODUCTS, N_QUERIES, N_UNSEEN = 6, 50, 2000
ATTRACTION = [0.1, 0.5, 0.9]  # by grade: the share of clicks among those who look
MOMENTS = [2**k for k in range(2, 15)]  # numbers of lists after which rankings are recorded
RANKERS = {"today": "newest first", "naive": "clicks as grades", "debiased": "debiased clicks"}
_MEASURE = "ndcg"


@dataclass(frozen=True)
class Moment:
    """Rankings of the followed query after a number of lists."""

    n_lists: int
    shown: int  # lists of this query
    clicked: Ints  # clicks of each product
    scores: dict[str, Floats]
    grades: Floats

    def ranked(self, name: str) -> Ints:
        """The products as a ranker puts them; of tied ones the less relevant first, as in the measure."""
        return ranking(self.scores[name], self.grades)

    def ndcg(self, name: str) -> float:
        """NDCG of the followed query."""
        return parse(_MEASURE)(self.scores[name], self.grades)


@dataclass(frozen=True)
class Shop:
    """Moments of the followed query, and the mean losses of each ranker on unseen queries: seeds x moments."""

    moments: list[Moment]
    losses: dict[str, Floats]

    @property
    def stills(self) -> list[int]:
        """Moments to print: one in the middle, and the last."""
        return [len(self.moments) // 2, len(self.moments) - 1]


def make_shop(n_queries: int, seed: int) -> QueryStream:
    """Return queries whose grades depend on fit and price, and not on age."""
    n = N_PRODUCTS * n_queries
    fit, price, age = np.random.default_rng(seed).random((3, n))
    return QueryStream.from_arrays(
        np.column_stack([fit, price, age]),
        np.digitize(fit * (1 - price / 2), [0.3, 0.55]),
        group=[N_PRODUCTS] * n_queries,
        feature_names=["fit", "price", "age"],
    )


def learn_from_clicks(seeds: Sequence[int]) -> Shop:
    """Simulate users of a shop for each seed, and record what two learners make of their clicks.

    The query that is followed is, of the shop of the first seed, the one on which they differ most in the end.
    """
    runs = [_run(seed) for seed in seeds]
    losses = {name: np.array([run[1][name] for run in runs]) for name in RANKERS}
    return Shop(runs[0][0], losses)


def _run(seed: int) -> tuple[list[Moment], dict[str, list[float]]]:
    shop, unseen = make_shop(N_QUERIES, seed), make_shop(N_UNSEEN, seed + 10_000)
    rankers: dict[str, Learner] = {
        "today": FixedRanker({"age": -1.0}),
        "naive": ListwisePerceptron(),
        "debiased": ClickPerceptron(),
    }
    users = position_based(examination=[1 / k for k in range(1, N_PRODUCTS + 1)], attraction=ATTRACTION)
    log = simulate_clicks(shop, users, ranker=rankers["today"], policy="fair-pairs", impressions=MOMENTS[-1], seed=seed)
    scores, losses = [], {name: list[float]() for name in rankers}
    for start, stop in pairwise([0, *MOMENTS]):
        part = log[start:stop]
        rankers["naive"].learn(part.with_columns({"relevance": part.columns["clicked"]}), [])
        rankers["debiased"].learn(part, [])
        scores.append({name: ranker.predict(shop).reshape(-1, N_PRODUCTS) for name, ranker in rankers.items()})
        for name, ranker in rankers.items():
            losses[name].append(1 - float(np.nanmean(_ndcg(ranker.predict(unseen), unseen))))
    naive, debiased = (_ndcg(scores[-1][name].ravel(), shop) for name in ("naive", "debiased"))
    query = int(np.nanargmax(debiased - naive))
    newest_first = np.argsort(-scores[0]["today"][query])
    of_query = np.array([int(qid) == shop.qids[query] for qid in log.columns["user_query"]])
    clicked = np.cumsum(np.asarray(log.columns["clicked"]).reshape(-1, N_PRODUCTS) * of_query[:, None], axis=0)
    moments = [
        Moment(
            n,
            int(of_query[:n].sum()),
            clicked[n - 1][newest_first].astype(np.int64),
            {name: values[query][newest_first] for name, values in at.items()},
            shop[query].relevance[newest_first],
        )
        for n, at in zip(MOMENTS, scores, strict=True)
    ]
    return moments, losses


def _ndcg(scores: Floats, stream: QueryStream) -> Floats:
    return parse(_MEASURE).per_query(scores, stream.relevance, stream.offsets)


def clicks_chart(shop: Shop, about: str) -> Chart:
    """Chart what is lost on unseen queries, by the number of lists learned from."""
    x = np.array(MOMENTS, np.float64)
    colors = {"today": 6, "naive": 1, "debiased": 2}
    series = [
        Series(name, x, *means_with_spread(shop.losses[key]), colors[key], dashed=key == "today")
        for key, name in RANKERS.items()
    ]
    first, last = (f"{shop.losses[name].mean(axis=0)[-1]:.3f}" for name in ("naive", "debiased"))
    return Chart(
        "clicks",
        "What is lost on queries that nobody has seen",
        "lists shown",
        f"1 − {_MEASURE.upper()}",
        series,
        about=f"{N_UNSEEN:,} unseen queries of a simulated shop; {about}",
        caption=(
            f"More clicks do not help the learner that takes them as grades: its mistake is not noise. In the end it "
            f"loses {first}, and the learner of debiased clicks {last}."
        ),
        log_x=True,
    )
