"""Learners from outside of the package that are wrong: refused with a message that says what to change."""

import importlib.util

import numpy as np
import pytest

import perceptrank as pr
from perceptrank.learners.registry import load_file


class Centroid(pr.NumpyLearner):
    """Move towards relevant documents."""

    def update(self, scores, X, relevance):
        return relevance - relevance.mean()


def _raises(self):
    raise KeyError("missing")


def _does_not_start(self, size=3):
    self.size = size


def _takes_anything(self, *rest):
    pr.NumpyLearner.__init__(self, *rest)


def _does_not_store(self, size=3):
    pr.NumpyLearner.__init__(self)


@pytest.mark.parametrize(
    ("constructor", "message"),
    [
        (_raises, "Wrong must be constructible without arguments: KeyError: 'missing'"),
        (_does_not_start, r"the constructor of Wrong must end in self\.__post_init__\(\)"),
        (_takes_anything, r"the constructor of Wrong must store its argument rest as self\.rest"),
        (_does_not_store, r"the constructor of Wrong must store its argument size as self\.size"),
    ],
)
def test_a_wrong_constructor_is_refused(constructor, message):
    kind = type("Wrong", (Centroid,), {"algorithm": "wrong", "__init__": constructor})
    with pytest.raises(TypeError, match=message):
        pr.register(kind)
    assert "wrong" not in pr.algorithms()


def test_a_plugin_whose_learner_cannot_be_constructed(tmp_path):
    (tmp_path / "broken.py").write_text(
        "import perceptrank as pr\n\n\nclass Broken(pr.NumpyLearner):\n    algorithm = 'broken'\n\n"
        "    def __init__(self):\n        raise KeyError('missing')\n\n"
        "    def update(self, scores, X, relevance):\n        return relevance\n"
    )
    with pytest.raises(TypeError, match="Broken must be constructible without arguments: KeyError: 'missing'"):
        load_file(tmp_path / "broken.py")


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (["a", "b"], "what update of Wrong returns must hold numbers"),
        ({}, "what update of Wrong returns must hold numbers"),
        ([1j, 0], "what update of Wrong returns must hold real numbers"),
        (np.ma.array([1.0, 2.0], mask=[True, False]), "what update of Wrong returns must not have masked values"),
        ([1.0, np.inf], "update of Wrong must return finite numbers, got inf"),
    ],
)
def test_an_update_that_returns_no_numbers(returned, message):
    kind = type("Wrong", (Centroid,), {"update": lambda *_: returned})
    with pytest.raises((ValueError, TypeError), match=message):
        kind().learn_one(np.eye(2), [1, 0])


def test_a_parameter_that_is_an_array_can_be_shown():
    def construct(self, prior=None):
        self.prior = prior
        self.__post_init__()

    kind = type("Prior", (Centroid,), {"__init__": construct})
    assert repr(kind(np.array([1.0, 2.0]))) == "Prior(prior=array([1., 2.]))"


def test_a_name_that_was_found_is_not_looked_for_again(monkeypatch):
    """Looking for a file takes Python's lock of imports, which a thread that is interrupted then may never release."""
    names = ["ndcg@10", "p@3", "map", "err"]
    found = [pr.parse(name) for name in names]
    monkeypatch.setattr(importlib.util, "find_spec", None)
    assert [pr.parse(name) for name in names] == found
