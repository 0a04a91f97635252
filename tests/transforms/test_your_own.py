"""Transforms of a user's own: parsed by name, saved, explained, folded and exported without a change in the package."""

import importlib.metadata
import shutil
import subprocess
import sys

import numpy as np
import pytest

import perceptrank as pr
from perceptrank.deploy import explain, export, fold, parity
from perceptrank.transforms import Transform, named_transforms, register_transform, registry, unregister_transform
from perceptrank.transforms.forms import Affine, Piecewise

ENGINES = ["python", "sql", "onnx", *(["javascript"] if shutil.which("node") else [])]


class Shifted(Transform):
    """Subtract a number from every feature, and halve it."""

    name = "shifted"
    rises = True
    label, unit = "half", "two units"

    def __init__(self, by=1.0):
        self.by = by

    def apply(self, X, offsets):
        return ((np.asarray(X) - self.by) * 0.5).astype(np.asarray(X).dtype)

    def affine(self, n_features):
        return Affine(np.full(n_features, self.by), np.full(n_features, 0.5))


class Signs(Transform):
    """Replace each feature by whether it is above 0, and whether it is above 1."""

    name = "signs"

    def apply(self, X, offsets):
        X = np.asarray(X)
        return np.stack([X > 0, X > 1], axis=2).reshape(len(X), -1).astype(X.dtype)

    def n_outputs(self, n_features):
        return 2 * n_features

    def output_names(self, names):
        return None if names is None else tuple(f"{name} > {edge}" for name in names for edge in (0, 1))

    def sources(self, n_features):
        return np.repeat(np.arange(n_features), 2)

    def piecewise(self, n_features):
        return Piecewise("thermometer", np.tile([0.0, 1.0], (n_features, 1)))


@pytest.fixture
def known():
    for kind in (Shifted, Signs):
        register_transform(kind)
    yield
    for kind in (Shifted, Signs):
        unregister_transform(kind.name)


def learned(transforms):
    X = np.random.default_rng(0).normal(1.0, 2.0, size=(90, 3))
    stream = pr.QueryStream.from_arrays(
        X, np.digitize(X[:, 0] - X[:, 1], [0, 2]), group=[9] * 10, feature_names=["title", "price", "age"]
    )
    ranker = pr.ListwisePerceptron(transforms=transforms)
    ranker.learn(stream)
    return ranker, stream


@pytest.mark.parametrize("transforms", ["shifted:by=3", ["shifted", "running"], "signs", ["shifted", "signs"]], ids=str)
def test_a_plugin_is_parsed_saved_explained_and_exported(transforms, known, tmp_path):
    ranker, stream = learned(transforms)
    ranker.save(tmp_path / "model.json")
    loaded = pr.load(tmp_path / "model.json")
    assert loaded.transforms_ == ranker.transforms_
    assert np.array_equal(loaded.scores(stream), ranker.scores(stream))
    explanation = explain(loaded, stream)
    assert {effect.feature for effect in explanation.features} == {"title", "price", "age"}
    contributions = explanation.contributions()
    assert contributions.total(0) == pytest.approx(float(loaded.scores(stream[:1]).max()))
    for target in ENGINES:
        result = parity(loaded, stream, target)
        assert result.agrees, (target, result)


def test_an_affine_plugin_is_folded_and_described(known):
    ranker, stream = learned("shifted:by=3")
    folded = fold(ranker)
    assert np.array_equal(folded.offsets, [3.0, 3.0, 3.0])
    assert np.allclose(folded.scores(stream.X), ranker.scores(stream), rtol=1e-12)
    assert [(form.label, form.unit) for form in explain(ranker).forms] == [("half", "two units")]
    assert explain(ranker).features[0].per_unit == folded.weights[list(folded.names).index("title")]


def test_a_piecewise_plugin_has_curves(known):
    ranker, _ = learned("signs")
    curves = explain(ranker).curves
    assert set(curves) == {"title", "price", "age"}
    assert curves["title"][0].edges.tolist() == [0.0, 1.0]
    assert "trees" in export(ranker, "ranklib").text


def test_a_plugin_that_says_nothing_is_refused_with_the_reason(known):
    class Squares(Transform):
        name = "squares"

        def apply(self, X, offsets):
            return X * X

    ranker, _ = learned(Squares())
    with pytest.raises(ValueError, match=r"is not linear in each feature.*: learn again with"):
        export(ranker, "python")
    with pytest.raises(ValueError, match="there is no ONNX graph"):
        export(ranker, "onnx")
    with pytest.raises(ValueError, match="register its class first"):
        ranker.save("model.json")


def test_what_cannot_be_registered():
    def named(name, **more):
        return type("Own", (Shifted,), {"name": name, **more})

    with pytest.raises(TypeError, match="must be a subclass of Transform, got 3"):
        register_transform(3)
    for name in ("Upper", "", None):
        with pytest.raises(ValueError, match="name of Own must be a name of lower-case letters"):
            register_transform(named(name))
    with pytest.raises(ValueError, match="name of Own must not be 'auto'"):
        register_transform(named("auto"))
    with pytest.raises(ValueError, match=r"name 'clip' of Own is taken by perceptrank.transforms.clip.Clip"):
        register_transform(named("clip"))
    with pytest.raises(TypeError, match="Own must be constructible without arguments"):
        register_transform(named("own", __init__=lambda self, needed: None))
    assert "own" not in named_transforms()


def test_installed_packages_bring_transforms(monkeypatch):
    entries = [
        importlib.metadata.EntryPoint("shifted", f"{__name__}:Shifted", "perceptrank.transforms"),
        importlib.metadata.EntryPoint("clip", f"{__name__}:Signs", "perceptrank.transforms"),
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: entries)
    vars(registry.REGISTRY).pop("installed", None)  # what is remembered
    try:
        with pytest.warns(UserWarning, match="is skipped: the name 'clip' is taken"):
            assert named_transforms()["shifted"].name == "shifted"
        assert repr(pr.ListwisePerceptron(transforms="shifted")) == "ListwisePerceptron(transforms='shifted')"
    finally:
        vars(registry.REGISTRY).pop("installed", None)


PLUGIN = """
import numpy as np
from perceptrank.transforms import Transform

class Halves(Transform):
    name = "halves"
    def apply(self, X, offsets):
        return X / 2
"""


@pytest.mark.engine
def test_a_file_of_transforms_is_a_plugin_of_the_command_line(tmp_path):
    (tmp_path / "own.py").write_text(PLUGIN)
    pr.write_letor(pr.separable(20, n_features=3).stream, tmp_path / "train.txt")
    words = ["--plugin", "own.py", "learn", "train.txt", "--transform", "halves", "--save", "model.json"]
    done = subprocess.run(
        [sys.executable, "-m", "perceptrank", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert '"halves"' in (tmp_path / "model.json").read_text()
