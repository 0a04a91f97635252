"""The shop of the report: what is drawn is what the two learners make of one log."""

from xml.etree import ElementTree

import numpy as np
import pytest

import perceptrank as pr
from perceptrank.paper.clicks_walk import ATTRACTION, MOMENTS, N_PRODUCTS, N_QUERIES, learn_from_clicks, make_shop
from perceptrank.paper.report.clicks_figure import clicks_figure, describe


@pytest.fixture(scope="module")
def shop():
    return learn_from_clicks([3])


@pytest.fixture(scope="module")
def log():
    """The log of the same seed."""
    users = pr.clicks.position_based(examination=[1 / k for k in range(1, N_PRODUCTS + 1)], attraction=ATTRACTION)
    ranker = pr.FixedRanker({"age": -1.0})
    return pr.simulate_clicks(
        make_shop(N_QUERIES, 3), users, ranker=ranker, policy="fair-pairs", impressions=MOMENTS[-1], seed=3
    )


def test_clicks_are_those_of_the_log(shop, log):
    """Counted one list after the other, for the query whose grades and ages are those that are drawn."""
    first = shop.moments[0]
    (followed,) = (
        query
        for query in make_shop(N_QUERIES, 3)
        if np.array_equal(np.sort(query.X[:, 2]), np.sort(-first.scores["today"]))
    )
    newest_first = np.argsort(followed.X[:, 2])
    assert np.array_equal(first.grades, followed.relevance[newest_first])
    shown, clicked = 0, np.zeros(N_PRODUCTS)
    moments = iter(shop.moments)
    for n, (qid, one) in enumerate(zip(log.columns["user_query"], log, strict=True), start=1):
        if int(qid) == followed.qid:
            shown, clicked = shown + 1, clicked + one.columns["clicked"][newest_first]
        if n in MOMENTS:
            moment = next(moments)
            assert (moment.n_lists, moment.shown, moment.clicked.tolist()) == (n, shown, clicked.tolist())


def test_rankings_and_losses_are_those_of_learners_fed_at_once(shop, log):
    naive, debiased, unseen = pr.ListwisePerceptron(), pr.ClickPerceptron(), make_shop(2000, 10_003)
    naive.learn(log.with_columns({"relevance": log.clicked}))
    debiased.learn(log)
    for name, ranker in {"naive": naive, "debiased": debiased}.items():
        loss = 1 - pr.evaluate(ranker, unseen, "ndcg").mean("ndcg")
        assert shop.losses[name][0, -1] == pytest.approx(loss, abs=1e-9)
    assert shop.losses["debiased"][0, -1] < shop.losses["naive"][0, -1] < shop.losses["today"][0, -1]


def test_cards_stand_as_each_ranker_puts_them(shop):
    page = clicks_figure(shop, 6)
    last = ElementTree.fromstring(
        page[page.rindex('<svg class="drawn" viewBox="0 0 560') :].split("</svg>")[0] + "</svg>"
    )
    names = [one for one in last.iter("text") if one.get("class") == "letter"]
    columns = {}
    for one in names:
        columns.setdefault(one.get("x"), []).append((float(one.get("y")), ord(one.text) - ord("A")))
    found = [[i for _, i in sorted(columns[x])] for x in sorted(columns, key=float)]
    assert found == [shop.moments[-1].ranked(name).tolist() for name in ("today", "naive", "debiased")]
    assert describe(shop.moments[-1]) in page
