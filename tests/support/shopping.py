"""A shop whose customers click: documents with hidden relevance, simulated users, and the model that learns offline."""

import numpy as np

import perceptrank as pr
from perceptrank.learners.clicks.impression import Impression
from perceptrank.serve.documents import Document
from perceptrank.serve.log.records import ImpressionEntry, as_numbers, decode

NAMES = ("text", "sales", "noise")


def searches(n, seed=1, m=8):
    """Searches as (documents, relevance): relevance 0 to 4 follows from text and sales."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        X = rng.normal(size=(m, 3))
        relevance = np.clip(np.round(1.5 + X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=m)), 0, 4)
        names = [f"d{i}" for i in range(m)]
        documents = [
            Document(name, dict(zip(NAMES, row, strict=True))) for name, row in zip(names, X.tolist(), strict=True)
        ]
        yield documents, dict(zip(names, relevance.tolist(), strict=True))


def serve_searches(ranker, made, user="navigational", seed=3, **showing):
    """Show each search to a user, and answer with the clicks; return the rankings."""
    from perceptrank.serve.exploring import Showing

    user, rng, ranked = pr.clicks.user(user) if isinstance(user, str) else user, np.random.default_rng(seed), []
    together = []
    for number, (documents, relevance) in enumerate(made, 1):
        ranking = ranker.rank(documents, Showing(**showing))
        shown = ranking.order[: ranking.places]
        clicked = user.click(np.array([relevance[name] for name in shown]), rng)
        ids = [name for name, click in zip(shown, clicked, strict=True) if click]
        ranker.clicks(ranking.ranking_id, ids, together=together)
        ranked.append(ranking)
        if number % 20 == 0:  # which share a flush to disk, and are learned before the next ones are shown
            ranker.submit(together)
            ranker.flush()
            together = []
    ranker.submit(together)
    ranker.flush()
    return ranked


def impressions_of(ranker):
    """The impressions in the log of a ranker."""
    entries = [decode(row.record) for row in ranker.thread.log.rows()]
    return [entry for entry in entries if isinstance(entry, ImpressionEntry)]


def learn_offline(learner, entries, names=NAMES):
    """Learn impressions one after the other, by the interface of click learners, from what the log says of them."""
    for entry in entries:
        shown = Impression(entry.X, names, np.array(entry.order), as_numbers(entry.propensities), entry.policy)
        learner.learn_clicks(shown, as_numbers(entry.clicks), examined=as_numbers(entry.examined))
    return learner
