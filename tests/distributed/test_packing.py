"""What travels to workers: objects whose classes are defined in plugins, and the plugins."""

import sys

import pytest

import perceptrank as pr
from perceptrank.learners import registry

pytest.importorskip("distributed")
from distributed.protocol.pickle import dumps

from perceptrank.distributed.packing import pack, unpack

SOURCE = """
import perceptrank as pr

@pr.register
class Some(pr.NumpyLearner):
    algorithm = "some"
    number = NUMBER
    def update(self, scores, X, relevance):
        return relevance - relevance.mean()
"""


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """As in a process of its own: what is registered here is forgotten."""
    before = set(sys.modules)
    monkeypatch.setattr(registry.REGISTRY, "registered", dict(registry.REGISTRY.registered))
    monkeypatch.setattr(registry, "_plugins", {})
    yield
    for name in set(sys.modules) - before:
        if name.startswith("perceptrank_plugin_"):
            del sys.modules[name]


def forget():
    """Make this process one that has loaded nothing."""
    for name in registry._plugins:
        del sys.modules[name]
    registry._plugins.clear()
    registry.REGISTRY.registered.pop("some")


def test_plugins_travel_with_their_objects(tmp_path):
    path = tmp_path / "some.py"
    path.write_text(SOURCE.replace("NUMBER", "1"))
    (kind,) = registry.load_file(path)
    packed = pack(kind(), dumps)
    forget()
    path.unlink()
    made = unpack(packed)
    assert type(made) is registry.find_kind("some") is not kind
    assert type(unpack(packed)) is type(made)  # loaded once
    made.learn(pr.separable(5, seed=0).stream)
    assert made.n_queries == 5


def test_a_file_that_was_edited_and_another_one_of_the_same_name_take_the_others_place(tmp_path):
    """A cluster outlives the programs that use it."""
    packets = []
    for number in (1, 2, 3):
        path = tmp_path / ("some.py" if number < 3 else "other.py")
        path.write_text(SOURCE.replace("NUMBER", str(number)))
        (kind,) = registry.load_file(path)
        packets.append(pack(kind(), dumps))
        forget()
    for place in (0, 1, 2, 1, 0):
        assert unpack(packets[place]).number == place + 1


def test_a_plugin_that_fails_is_named(tmp_path):
    path = tmp_path / "some.py"
    path.write_text(SOURCE.replace("NUMBER", "1"))
    (kind,) = registry.load_file(path)
    registry._plugins = {name: registry.Plugin(name, "some.py", b"1 / 0") for name in registry._plugins}
    packed = pack(kind(), dumps)
    forget()
    with pytest.raises(ValueError, match=r"plugin some.py cannot be run: ZeroDivisionError"):
        unpack(packed)
