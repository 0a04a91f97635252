"""Threads that share a learner: calls that learn take turns, and whoever reads sees the state between two calls."""

import sys
import threading

import numpy as np
import pytest
from support.learners import every_implementation

import perceptrank as pr


@pytest.fixture
def hasty():
    """Threads that take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def run_all(*targets):
    """Run functions in threads at once; raise what one of them raised."""
    errors, start = [], threading.Barrier(len(targets))

    def run(target):
        start.wait()
        try:
            target()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("n", [5, pytest.param(300, marks=pytest.mark.deep)])
@every_implementation
def test_blocks_of_two_threads_are_learned_one_after_the_other(make, n, stream, hasty):
    one, other = stream[:30], stream[30:]
    orders = []
    for blocks in ([one, other], [other, one]):
        learner = make()
        for block in blocks:
            learner.learn(block, "ndcg@3")
        orders.append(learner.as_document())
    for _ in range(n):
        learner = make()
        run_all(lambda: learner.learn(one, "ndcg@3"), lambda: learner.learn(other, "ndcg@3"))  # noqa: B023
        assert learner.as_document() in orders


def test_every_query_of_many_threads_counts_once(stream, hasty):
    learner = pr.SlamPerceptron(transforms="running")

    def learn():
        for query in stream:
            learner.learn_one(query.X, query.relevance)

    run_all(learn, learn, learn)
    assert learner.n_queries == learner.n_rounds == 3 * len(stream)
    assert learner.transforms_[0].count == 3 * stream.n_documents


@pytest.mark.parametrize("n", [40, pytest.param(2000, marks=pytest.mark.deep)])
@every_implementation
def test_what_is_saved_and_ranked_while_learning_is_from_between_two_calls(make, n, stream, hasty, tmp_path):
    blocks, again = list(stream.blocks(100)), make()
    documents, scores = [again.as_document()], [again.predict(stream.X)]
    for block in blocks:
        again.learn(block, "ndcg@3")
        documents.append(again.as_document())
        scores.append(again.predict(stream.X))
    learner, over = make(), threading.Event()
    saved, ranked = [], []

    def learn():
        for block in blocks:
            learner.learn(block, "ndcg@3")
        over.set()

    def save():
        while not over.is_set() and len(saved) < n:
            learner.save(tmp_path / "model.json")
            saved.append(pr.load(tmp_path / "model.json").as_document())

    def rank():
        while not over.is_set() and len(ranked) < n:
            ranked.append(learner.predict(stream.X))

    run_all(learn, save, rank)
    assert all(document in documents for document in saved)
    assert all(any(np.array_equal(found, one) for one in scores) for found in ranked)
    assert learner.as_document() == documents[-1]
