"""Click learners over shards of a log: the same bits on every engine; the click perceptron adds up as in one pass."""

from functools import partial

import numpy as np
import pytest

import perceptrank as pr
from perceptrank.distributed import learn
from perceptrank.learners.tally import UPDATES

POLICIES = {"3pr": "fair-pairs", "fair-pairs": "fair-pairs", "rtop-k": "uniform:0.3"}
N_SHARDS = 4


@pytest.fixture(scope="module", params=["here", pytest.param("dask", marks=pytest.mark.engine)])
def client(request):
    if request.param == "here":
        yield None
    else:
        distributed = pytest.importorskip("distributed")
        with pr.distributed.local_cluster(2) as cluster, distributed.Client(cluster) as made:
            yield made


@pytest.fixture(scope="module")
def shop():
    return pr.mslr_shaped(60, n_documents=10, n_features=6, seed=0)


@pytest.fixture(scope="module")
def logs(shop):
    """Logs of each policy."""
    user = pr.clicks.user("navigational")
    return {
        policy: pr.simulate_clicks(shop, user, policy=policy, impressions=1200, n=6, seed=0)
        for policy in ("plackett-luce", *set(POLICIES.values()))
    }


def shards_of(log, n=N_SHARDS):
    return [log[place::n] for place in range(n)]


def learned_apart(make, parts, start=None):
    models = []
    for part in parts:
        ranker = make()
        if start is not None:
            ranker.adopt(start)
        ranker.learn(part)
        models.append(ranker.model)
    return models


def production(shop):
    today = pr.ListwisePerceptron()
    today.learn(shop[:5])
    return lambda: pr.ClickPerceptron(production="score", evidence=100.0, transforms=[pr.ScoreOf(today), "auto"])


@pytest.mark.parametrize("name", sorted(pr.algorithms(clicks=True)))
def test_every_click_learner_has_the_same_bits_everywhere(client, logs, name, tmp_path):
    kind, log = pr.algorithms(clicks=True)[name], logs[POLICIES.get(name, "plackett-luce")]
    parts = shards_of(log)
    expected = kind()
    for _ in range(2):
        apart = learned_apart(kind, parts, expected.model)
        expected = pr.distributed.mix(expected, [expected.with_model(model) for model in apart])
    assert learn(kind(), parts, client, epochs=2).ranker.as_document() == expected.as_document()
    for number, part in enumerate(parts):
        pr.write_store(part, tmp_path / f"{number}.store")
    files = [tmp_path / f"{number}.store" for number in range(N_SHARDS)]
    made = learn(kind(), files, client, epochs=2).ranker
    assert made.as_document()["state"] == expected.as_document()["state"]
    plain = kind()
    plain.learn(log)
    assert learn(kind(), [log], client).ranker.as_document() == plain.as_document()


def test_production_has_the_same_bits_everywhere(client, shop, logs):
    make, parts = production(shop), shards_of(logs["plackett-luce"])
    here = learn(make(), parts, epochs=2).ranker
    assert learn(make(), parts, client, epochs=2).ranker.as_document() == here.as_document()


@pytest.mark.parametrize("sparse", [False, True])
def test_steps_of_the_click_perceptron_are_added_up(logs, sparse):
    """No step depends on the weights, so that those of shards are added up as in one pass."""
    parts = shards_of(logs["plackett-luce"])
    parts = [part.to_sparse() for part in parts] if sparse else parts
    make = partial(pr.ClickPerceptron, transforms=None)
    first = learned_apart(make, parts)
    ranker, _ = learn(make(), parts)
    np.testing.assert_allclose(ranker.weights, sum(model.weights for model in first), rtol=1e-12)
    for name in ("place_clicks", "place_shown", "evidence"):
        np.testing.assert_allclose(ranker.model.more[name], sum(model.more[name] for model in first), rtol=1e-12)
    before = ranker.model
    second = learned_apart(make, parts, before)
    ranker, _ = learn(ranker, parts)
    new = sum(model.weights - before.weights for model in second)
    np.testing.assert_allclose(ranker.weights, before.weights + new, rtol=1e-12)
    clicks = sum(model.more["place_clicks"] - before.more["place_clicks"] for model in second)
    np.testing.assert_allclose(ranker.model.more["place_clicks"], before.more["place_clicks"] + clicks, rtol=1e-12)


def test_signs_are_kept_in_the_sum(logs):
    parts = shards_of(logs["plackett-luce"])
    ranker = pr.ClickPerceptron(transforms=None, positive=[0, 1, 2], negative=[3], zero=[4])
    for _ in range(2):
        learn(ranker, parts)
        weights = ranker.weights
        assert (weights[:3] >= 0).all()
        assert weights[3] <= 0
        assert weights[4] == 0
        assert np.any(weights)
        ranker.learn(logs["plackett-luce"][:50])


@pytest.mark.parametrize("n", [2, 30])
def test_production_counts_against_the_evidence_of_all_shards(shop, logs, n):
    """The evidence of a shard alone would prove little: production would stay."""
    make, log = production(shop), logs["plackett-luce"]
    plain = make()
    plain.learn(log)
    ranker, _ = learn(make(), shards_of(log, n))
    place, weight = round(ranker.model.more["production"][0]), ranker.model.more["production"][1]
    first = learned_apart(make, shards_of(log, n))
    own = sum(model.weights - model.more["production"][1] * (np.arange(len(model.weights)) == place) for model in first)
    agreement, squares = sum(model.more["evidence"] for model in first)
    sure = agreement / np.sqrt(squares)
    m = ranker.model.tally[UPDATES] * (1 - 9 / sure**2) if sure > 3 else 0.0
    expected = np.linalg.norm(own) / max(m / 100.0, 1e-6)
    np.testing.assert_allclose(weight, expected, rtol=1e-9)
    own[place] += expected
    np.testing.assert_allclose(ranker.weights, own, rtol=1e-9)
    assert np.corrcoef(ranker.predict(shop), plain.predict(shop))[0, 1] > 0.98
