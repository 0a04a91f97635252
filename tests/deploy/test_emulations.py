"""The package's own emulation of engines against emulators that read the exported files."""

from dataclasses import replace

import numpy as np
import pytest
from support import emulators
from support.boundaries import around_edges, learned_bins

import perceptrank as pr
from perceptrank.deploy.exports import make_target
from perceptrank.deploy.ranking_function import RankingFunction

BINS = [["bins:n_bins=6,kind=thermometer"], ["running", "bins:n_bins=5,kind=one-hot"]]


def both(model, stream, target, monkeypatch, **options):
    """Return the scores by the emulation, and those that are read from the file."""
    function = RankingFunction.of(model)
    chosen = make_target(target, options).settled(model, function)
    export = chosen.export(function)
    monkeypatch.undo()
    own = chosen.scores(function, export, stream.X, stream.offsets)
    emulators.install(monkeypatch)
    return own, chosen.scores(function, export, stream.X, stream.offsets)


@pytest.mark.parametrize("options", [{}, {"normalizers": False}, {"shift": 12.5}], ids=str)
@pytest.mark.parametrize("target", ["elasticsearch", "opensearch", "solr"])
def test_linear_models_of_search_engines_to_the_bit(target, options, learned_floats, monkeypatch):
    model, stream = learned_floats(d=5)
    own, read = both(model, stream, target, monkeypatch, **options)
    assert np.array_equal(own, read)


@pytest.mark.parametrize("transforms", BINS, ids=str)
@pytest.mark.parametrize("target", ["elasticsearch", "solr"])
def test_trees_of_search_engines_to_the_bit(target, transforms, monkeypatch):
    model, stream = learned_bins(transforms)
    own, read = both(model, around_edges(model, stream, np.float32), target, monkeypatch, shift=3.0)
    assert np.array_equal(own, read)


def test_edges_and_values_at_the_end_of_float32(monkeypatch):
    """No edge beyond float32 becomes a split, and no split tells the largest float32 from a feature without match."""
    largest = float(np.finfo(np.float32).max)
    X = np.repeat([-2.0, 1.0, 2.5, largest, 1e300], 6)[:, None]
    stream = pr.QueryStream.from_arrays(X, np.arange(30) // 6 % 2, group=[30])
    model = pr.ListwisePerceptron(transforms="bins:kind=one-hot,n_bins=5")
    model.learn(stream)
    assert model.transforms_[0].edges.max() >= largest
    documents = pr.QueryStream.from_arrays([[-2.0], [0.0], [1.0], [2.5], [1e30], [largest]], [0] * 6)
    own, read = both(model, documents, "opensearch", monkeypatch)
    assert np.array_equal(own, read)
    assert own[1] == own[5] != own[4]
    assert "Infinity" not in pr.deploy.export(model, "opensearch").text


@pytest.mark.parametrize("target", ["vespa", "pmml"])
def test_files_in_double_precision(target, learned, stream, monkeypatch):
    own, read = both(learned("running"), stream, target, monkeypatch)
    assert np.allclose(own, read, rtol=1e-12, atol=1e-12 * np.abs(read).max())
    gaps = pr.QueryStream.from_arrays(
        np.where(np.arange(60).reshape(20, 3) % 7 == 0, np.nan, np.arange(60.0).reshape(20, 3) % 11),
        np.arange(20) % 3,
        group=[10, 10],
        missing="keep",
    )
    model = pr.ListwisePerceptron(transforms=[pr.Missing(indicator=True), "running"])
    model.learn(gaps)
    own, read = both(model, gaps, target, monkeypatch)
    assert np.allclose(own, read, rtol=1e-12, atol=1e-12 * np.abs(read).max())


@pytest.mark.parametrize("transforms", [*BINS, ["running", "bins:n_bins=4"]], ids=str)
@pytest.mark.parametrize("target", ["vespa", "pmml"])
def test_curves_in_double_precision(target, transforms, monkeypatch):
    model, stream = learned_bins(transforms)
    own, read = both(model, stream, target, monkeypatch)
    assert np.allclose(own, read, rtol=1e-12, atol=1e-12 * np.abs(read).max())


@pytest.mark.parametrize("scores", ["opensearch,min_max", "opensearch,rrf", "elasticsearch,l2", "elasticsearch,rrf"])
def test_weights_of_hybrid_search_to_the_bit(scores, monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.random((60, 3)).astype(np.float32).astype(np.float64)
    stream = pr.QueryStream.from_arrays(
        X, (X.sum(axis=1) > 1.5).astype(int), group=[6] * 10, feature_names=["bm25", "vector", "popularity"]
    )
    names = ["bm25", "vector", "popularity"]
    model = pr.ListwisePerceptron(transforms=pr.HybridScores(*scores.split(",")), positive=names)
    model.learn(stream)
    own, read = both(model, stream, "hybrid", monkeypatch)
    assert np.array_equal(own, read)
    swapped = pr.deploy.export(model, "hybrid").text.replace("0.", "0.1", 1)
    chosen, function = make_target("hybrid", {}), RankingFunction.of(model)
    damaged = replace(chosen.export(function), content=swapped.encode())
    assert not np.array_equal(own, chosen.scores(function, damaged, stream.X, stream.offsets))  # the file is read
