"""Streams that a teacher grades."""

import numpy as np
import pytest

import perceptrank as pr

pytest.importorskip("sklearn")
REAL = pr.mslr_shaped(40, n_documents=15, n_features=5, seed=3)


def test_the_same_stream_every_time_and_a_prefix_of_longer_ones():
    short, long = (pr.teacher_stream(REAL, n, n_trees=2) for n in (1050, 1100))
    blocks = list(short)
    assert [len(block) for block in blocks] == [1000, 50]
    again = pr.QueryStream.concatenate(short)
    longer = pr.QueryStream.concatenate(long)
    n = again.n_documents
    assert np.array_equal(pr.QueryStream.concatenate(blocks).X, again.X)
    assert np.array_equal(longer.X[:n], again.X)
    assert np.array_equal(longer.relevance[:n], again.relevance)
    assert longer.qids.tolist() == list(range(1100))
    other = pr.QueryStream.concatenate(pr.teacher_stream(REAL, 1050, n_trees=2, seed=1))
    assert not np.array_equal(other.offsets, again.offsets)


def test_grades_and_lengths_are_as_frequent_as_the_real_ones():
    stream = pr.QueryStream.concatenate(pr.teacher_stream(REAL, 3000, n_trees=2))
    for grade in np.unique(REAL.relevance):
        assert np.mean(stream.relevance == grade) == pytest.approx(np.mean(REAL.relevance == grade), abs=0.02)
    assert set(np.diff(stream.offsets)) <= set(np.diff(REAL.offsets))
    assert np.diff(stream.offsets).mean() == pytest.approx(np.diff(REAL.offsets).mean(), rel=0.05)


def test_documents_are_real_ones_or_between_two_of_them():
    plain = next(iter(pr.teacher_stream(REAL, 50, n_trees=5, smoothing=0)))
    real = set(map(bytes, REAL.X))
    assert all(bytes(row) in real for row in plain.X)
    moved = next(iter(pr.teacher_stream(REAL, 50, n_trees=5, smoothing=0.1)))
    assert len(set(map(bytes, moved.X))) > 0.9 * moved.n_documents
    assert (moved.X.min(axis=0) >= REAL.X.min(axis=0)).all()
    assert (moved.X.max(axis=0) <= REAL.X.max(axis=0)).all()


def test_without_noise_the_teacher_ranks_perfectly():
    stream = pr.teacher_stream(REAL, 200, n_trees=10, noise=0)
    assert pr.evaluate(stream.teacher, stream, "ndcg@10").mean("ndcg@10") == 1
    noisy = pr.teacher_stream(REAL, 200, n_trees=10, noise=1.0)
    assert pr.evaluate(noisy.teacher, noisy, "ndcg@10").mean("ndcg@10") < 0.95


def test_a_network_is_the_same_every_time_and_another_for_another_seed():
    truth, again, other = (pr.teacher_stream(REAL, 50, teacher="network", seed=seed).teacher for seed in (0, 0, 1))
    assert truth.predict(REAL.X).dtype == np.float64
    assert np.array_equal(truth.predict(REAL.X), again.predict(REAL.X))
    assert np.array_equal(truth.scores(REAL), truth.predict(REAL.X))
    assert not np.allclose(truth.predict(REAL.X), other.predict(REAL.X))


def test_a_network_does_not_depend_on_units_or_on_grades():
    X = REAL.X.astype(np.float64)
    moved = pr.QueryStream(8 * X - 3, REAL.relevance[::-1], REAL.offsets)
    truth, same = (pr.teacher_stream(stream, 50, teacher="network").teacher for stream in (REAL, moved))
    assert same.scores(moved) == pytest.approx(truth.scores(REAL), abs=1e-9)


def test_a_network_takes_constant_and_missing_features():
    X = np.column_stack([np.arange(6.0), np.full(6, 0.1), np.full(6, np.nan)])
    stream = pr.QueryStream.from_arrays(X, [0, 1, 2, 0, 1, 2], group=[3, 3], missing="keep")
    truth = pr.teacher_stream(stream, 50, teacher="network").teacher
    assert len(set(truth.scores(stream).tolist())) == 6
    filled = np.nan_to_num(X)
    assert np.array_equal(truth.predict(filled), truth.predict(X))


def test_no_linear_function_is_near_a_network():
    truth = pr.teacher_stream(REAL, 50, teacher="network").teacher.predict(REAL.X)
    inputs = np.column_stack([REAL.X, np.ones(REAL.n_documents)])
    residuals = truth - inputs @ np.linalg.lstsq(inputs, truth)[0]
    assert residuals.var() > 0.25 * truth.var()


def test_a_network_without_noise_ranks_perfectly():
    stream = pr.teacher_stream(REAL, 200, teacher="network", noise=0)
    assert pr.evaluate(stream.teacher, stream, "ndcg@10").mean("ndcg@10") == 1


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"n_queries": 0}, "n_queries"),
        ({"smoothing": 1}, "smoothing must be less than 1"),
        ({"noise": -1}, "noise"),
        ({"n_trees": 0.5}, "n_trees"),
        ({"teacher": "forest"}, "teacher must be one of 'trees', 'network', got 'forest'"),
    ],
)
def test_wrong_arguments(given, problem):
    with pytest.raises((ValueError, TypeError), match=problem):
        pr.teacher_stream(REAL, **given)


def test_grades_must_differ():
    equal = pr.QueryStream.from_arrays(np.eye(3), [1, 1, 1])
    with pytest.raises(ValueError, match="different grades"):
        pr.teacher_stream(equal)
