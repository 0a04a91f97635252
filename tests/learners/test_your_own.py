"""docs/learners/your-own.md: its learners, used as a reader would use them, and what plugins may not do."""

import json
import os
import re
import subprocess
import sys
import tomllib
from copy import deepcopy

import numpy as np
import pytest
from support.learners import bits
from support.pages import PAGES, blocks_of
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.learners.registry import load_file
from perceptrank.stream.validation import ParameterError

# Two files, a program that uses one of them, and a package of both.
PAGE = PAGES["docs/learners/your-own.md"]
NUMPY, REGISTER, COMPILED, NETWORK, OTHER = (block.text for block in blocks_of(PAGE) if block.kind == "python")
(PYPROJECT,) = (block.text for block in blocks_of(PAGE) if block.kind == "toml")

# Settings of learners that can differ in what the base classes do.
SETTINGS = {
    "listwise-pa": lambda kinds: kinds["listwise-pa"](),
    "listwise-pa averaged, scaled": lambda kinds: kinds["listwise-pa"](0.3, average=True, transforms="running"),
    "bagging:listwise-pa": lambda kinds: pr.Bagging(kinds["listwise-pa"](), n_members=2),
    "two-layers": lambda kinds: kinds["two-layers"](n_hidden=3),
    "pair-hinge": lambda kinds: kinds["pair-hinge"](),
    "pair-hinge averaged, scaled": lambda kinds: kinds["pair-hinge"](1.0, average=True, transforms="query-zscore"),
    "adagrad:pair-hinge": lambda kinds: pr.AdaGrad(kinds["pair-hinge"](average=True)),
}


@pytest.fixture(scope="module")
def stream():
    """Noisy, with queries of one document, of equal grades and of equal documents."""
    rng = np.random.default_rng(4)
    sizes = [1, 3, 2, *rng.integers(1, 9, size=37)]
    X = np.round(rng.normal(size=(sum(sizes), 4)), 1)
    X[4:6] = X[4]
    grades = np.clip(np.round(X @ [1.0, -1.0, 0.5, 0.0] + 0.5 * rng.normal(size=len(X))), 0, 3)
    grades[1:4] = 2
    return pr.QueryStream.from_arrays(X, grades, group=sizes)


def test_a_model_is_a_contender(stream, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, part in (("train", stream[:25]), ("vali", stream[25:30]), ("test", stream[30:])):
        pr.write_letor(part, f"{name}.txt")
    (tmp_path / "rocchio.py").write_text(OTHER, encoding="utf-8")
    (command,) = (block.text for block in blocks_of(PAGE) if "rocchio.py \\" in block.text)
    done = CliRunner().invoke(app, [*command.replace("\\\n", " ").split()[1:], "--orders", "2", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    model_name = next(name for name in found["letters"] if name.startswith("rocchio"))
    names = {}
    exec(OTHER, names)
    model, values = names["contenders"]["rocchio"][int(model_name[-1]) - 1], []
    for query in pr.read_letor("train.txt").shuffled(0):
        values.append(pr.NDCG(10)(model.predict(query.X), query.relevance))
        model.learn(query.X, query.relevance)
    rows = {row["name"]: row for row in found["sets"]["progressive"]["ndcg@10"]["standings"]}
    assert rows[model_name]["per_order"][0] == pytest.approx(np.nanmean(values))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files of the document."""
    folder = tmp_path_factory.mktemp("learners")
    (folder / "my_learner.py").write_text(NUMPY, encoding="utf-8")
    (folder / "pair_hinge.py").write_text(COMPILED, encoding="utf-8")
    (folder / "two_layers.py").write_text(NETWORK, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def kinds(folder):
    """The learners of the document, registered from their files."""
    found = [kind for name in ("my_learner", "pair_hinge", "two_layers") for kind in load_file(folder / f"{name}.py")]
    yield {kind.algorithm: kind for kind in found}
    for kind in found:
        pr.unregister(kind.algorithm)
    names = vars(sys.modules[next(kind for kind in found if kind.algorithm == "pair-hinge").__module__])
    for kernel in (names["PairHinge"].kernel.function, names["pair_hinge_rule"]):
        kernel._cache.flush()  # the file is in another folder next time


def run_python(*words, **variables):
    """Run this Python; return its output."""
    result = subprocess.run(
        [sys.executable, *map(str, words)], env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result


def fail(*words):
    """Run a command that fails; return its message."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 1, result.output
    return result.stderr


@pytest.mark.parametrize("name", SETTINGS)
def test_learning_query_by_query_is_the_same(kinds, stream, name):
    learner, other = SETTINGS[name](kinds), SETTINGS[name](kinds)
    trace = learner.learn(stream)
    updates = [other.learn_one(query.X, query.relevance) for query in stream]
    assert bits(learner) == bits(other)
    assert updates == (trace.masses > 0).tolist()
    assert 0 < learner.n_updates < len(stream) == learner.n_queries


@pytest.mark.parametrize("name", SETTINGS)
def test_a_saved_learner_continues_as_if_it_had_never_stopped(kinds, stream, name, tmp_path):
    learner, first = SETTINGS[name](kinds), SETTINGS[name](kinds)
    learner.learn(stream)
    first.learn(stream[:17])
    first.save(tmp_path / "model.json")
    second = pr.load(tmp_path / "model.json")
    assert type(second) is type(first)
    second.learn(stream[17:])
    assert bits(second) == bits(learner)
    assert second.as_document()["parameters"] == learner.as_document()["parameters"]


def test_passive_aggressive_steps_by_hand(kinds):
    X, grades = [[2.0, 0.0], [0.0, 0.0], [0.0, 2.0]], [1, 0, 0]
    ranker = kinds["listwise-pa"]()
    assert ranker.learn_one(X, grades)
    z = np.array([2.0, -1.0])  # the mean of (2, 0) - (0, 0) and (2, 0) - (0, 2)
    np.testing.assert_allclose(ranker.weights, z / (z @ z))
    ahead = np.array([[2.0, 0.0], [2.0, -2.0]]) @ ranker.weights
    assert ahead.mean() == pytest.approx(1.0)
    limited = kinds["listwise-pa"](limit=0.1)
    limited.learn_one(X, grades)
    np.testing.assert_allclose(limited.weights, 0.1 * z)


def test_pair_hinge_is_its_definition(kinds, stream):
    ranker = kinds["pair-hinge"](learning_rate=0.5, margin=0.7)
    trace = ranker.learn(stream)
    weights, masses = np.zeros(4), []
    for query in stream:
        scores, step, shares = query.X @ weights, np.zeros(4), []
        for i in range(len(query.X)):
            for j in range(len(query.X)):
                if query.relevance[i] > query.relevance[j]:
                    shares.append(float(scores[i] - scores[j] < 0.7))
                    step += shares[-1] * (query.X[i] - query.X[j])
        weights = weights + 0.5 * step / max(len(shares), 1)
        masses.append(np.mean(shares) if shares else 0.0)
    np.testing.assert_allclose(ranker.weights, weights, atol=1e-12)
    np.testing.assert_allclose(trace.masses, masses, atol=1e-12)


def test_a_network_is_its_definition(kinds, stream):
    """Every step goes down the mean logistic loss, as differences of the loss do."""
    ranker = kinds["two-layers"](n_hidden=3, transforms=None)

    def loss(arrays, query):
        scores = ranker.function(arrays, query.X)
        pairs = query.relevance[:, None] > query.relevance
        return np.log1p(np.exp(scores - scores[:, None]))[pairs].mean()

    ranker.learn_one(stream[1].X, stream[1].relevance)
    for query in stream[2:12]:
        before = {name: values.copy() for name, values in ranker.arrays_.items()}
        if not ranker.learn_one(query.X, query.relevance):
            assert len(set(query.relevance)) == 1
            continue
        for name, values in ranker.arrays_.items():
            for place in np.ndindex(values.shape):
                shifted = {key: array.copy() for key, array in before.items()}
                shifted[name][place] += 1e-6
                slope = (loss(shifted, query) - loss(before, query)) / 1e-6
                assert values[place] - before[name][place] == pytest.approx(-0.1 * slope, abs=1e-5)


def test_a_network_has_no_weights_and_is_not_exported(kinds, stream):
    ranker = kinds["two-layers"]()
    assert ranker.scores(stream).tolist() == [0.0] * stream.n_documents
    ranker.learn(stream)
    with pytest.raises(AttributeError, match="ranks by a function of its arrays_"):
        assert len(ranker.coef_)
    with pytest.raises(ValueError, match=r"this TwoLayers cannot be exported: .* function of its arrays_"):
        pr.deploy.export(ranker, "python")
    with pytest.raises(ValueError, match="n_hidden cannot be changed"):
        ranker.n_hidden = 4
    with pytest.raises(TypeError, match="cannot be mixed"):
        pr.distributed.learn(kinds["two-layers"](), [stream[:20], stream[20:]])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"weights": np.zeros(4)}, "'weights' that update of Wrong returns must be one of centre, which `start` named"),
        ({"centre": np.zeros(3)}, r"must be finite numbers of shape \(4,\), got shape \(3,\)"),
        ({"centre": np.full(4, np.nan)}, "must be finite numbers"),
        ({"centre": "much"}, "must hold numbers"),
    ],
)
def test_what_a_function_learner_returns_is_checked(stream, changes, problem):
    class Wrong(pr.FunctionLearner):
        algorithm = "wrong"

        def start(self, n_features):
            return {"centre": np.zeros(n_features)}

        @staticmethod
        def function(arrays, X):
            return X[:-1, 0] if len(X) == 2 else X @ arrays["centre"]

        def update(self, arrays, scores, X, relevance):
            return changes

    ranker = Wrong(transforms=None)
    with pytest.raises(ValueError, match=problem):
        ranker.learn_one(np.eye(4), [1, 0, 0, 0])
    assert ranker.n_queries == 0
    with pytest.raises(ValueError, match=r"function of Wrong must return 2 scores, got shape \(1,\)"):
        ranker.learn_one(np.eye(4)[:2], [1, 0])


def test_their_parameters_are_checked(kinds, stream):
    with pytest.raises(ParameterError, match="limit must be a number > 0, got -1") as caught:
        kinds["listwise-pa"](limit=-1)
    assert caught.value.parameter == "limit"
    ranker = kinds["pair-hinge"]()
    with pytest.raises(ParameterError, match="margin must be a number > 0, got 0"):
        ranker.margin = 0
    assert ranker.get_params() == {"learning_rate": 0.1, "margin": 1.0, "average": False, "transforms": None}
    ranker.margin = 0.7
    ranker.learning_rate = 0.5
    expected = kinds["pair-hinge"](0.5, margin=0.7)
    ranker.learn(stream)
    expected.learn(stream)
    assert bits(ranker) == bits(expected)


def test_they_are_known_by_name(kinds, folder, stream, tmp_path):
    assert pr.algorithms()["listwise-pa"] is kinds["listwise-pa"]
    result = CliRunner().invoke(app, ["algorithms", "--json"])
    rows = {row["name"]: row for row in json.loads(result.stdout)["rows"]}
    assert rows["pair-hinge"]["promise"] == "the regret of gradient descent"
    assert rows["listwise-pa"]["what it does"].startswith("The smallest step after which")
    kinds["listwise-pa"]().save(tmp_path / "model.json")
    pr.unregister("listwise-pa")
    with pytest.raises(ValueError, match="'listwise-pa'; register its class, or name its file with --plugin"):
        pr.load(tmp_path / "model.json")
    pr.register(kinds["listwise-pa"])
    assert type(pr.load(tmp_path / "model.json")) is kinds["listwise-pa"]
    with pytest.raises(ValueError, match="no learner of the name 'slam' was registered"):
        pr.unregister("slam")


@pytest.mark.engine
def test_on_the_command_line(kinds, folder, stream, tmp_path):
    pr.write_letor(stream, tmp_path / "train.txt")
    plugin, model = ["-m", "perceptrank", "--plugin", folder / "my_learner.py"], tmp_path / "model.json"
    learn = ["learn", tmp_path / "train.txt", "--algorithm", "listwise-pa", "--set", "limit=0.5", "--float64"]
    run_python(*plugin, *learn, "--save", model)
    expected = kinds["listwise-pa"](0.5)
    expected.learn(stream)
    assert bits(pr.load(model)) == bits(expected)
    evaluate = ["evaluate", model, tmp_path / "train.txt", "--record", "ap", "--float64", "--json"]
    (row,) = json.loads(run_python(*plugin, *evaluate).stdout)["rows"]
    assert row["mean"] == pr.evaluate(expected, stream, "ap").mean("ap")
    assert fail(*learn[:-2], "limit=-1") == "error: limit must be a number > 0, got -1\n"


def test_in_a_program_and_compiled_once(kinds, folder, stream, tmp_path):
    """The document's own lines; a second process loads the machine code of the pass that this one compiled."""
    kinds["listwise-pa"](0.5).save(tmp_path / "model.json")
    learner = kinds["pair-hinge"]()
    learner.learn(stream)
    learner.save(tmp_path / "hinge.json")
    pr.write_letor(stream, tmp_path / "train.txt")
    code = f"""{REGISTER}
assert type(model) is ListwisePassiveAggressive and model.limit == 0.5
from perceptrank.kernels.compiled import on_compile
from perceptrank.learners.registry import load_file
names = []
on_compile(names.append)
load_file({str(folder / "pair_hinge.py")!r})
learner, expected = pr.algorithms()["pair-hinge"](), pr.load("hinge.json")
learner.learn(pr.read_letor("train.txt", dtype="float64"), [])
assert learner.weights.tolist() == expected.weights.tolist()
assert not [name for name in names if "pair_hinge" in name], names
"""
    (tmp_path / "program.py").write_text(code)
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, check=True)


def test_an_installed_package(folder, tmp_path):
    """Entry points as an installer writes them, those of the document and three that cannot be used."""
    points = tomllib.loads(PYPROJECT)["project"]["entry-points"]["perceptrank.learners"]
    points = [*points.items(), ("slam", "my_learner:ListwisePassiveAggressive"), ("gone", "gone:Gone")]
    points += [("other-name", "pair_hinge:PairHinge")]
    info = tmp_path / "my_learners-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-learners\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in points]
    (info / "entry_points.txt").write_text("\n".join(["[perceptrank.learners]", *lines, ""]))
    code = """
import warnings
import perceptrank as pr
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    names = set(pr.algorithms())
assert {"listwise-pa", "pair-hinge"} < names and not {"gone", "other-name"} & names, names
assert pr.algorithms()["slam"] is pr.SlamPerceptron
first, second, third = sorted(str(one.message) for one in caught)
assert first == "learner gone:Gone of an installed package is skipped: No module named 'gone'"
assert second.endswith("is skipped: the name 'slam' is taken"), second
assert third.endswith("its algorithm is 'pair-hinge', its entry point is named 'other-name'"), third
pr.algorithms()["listwise-pa"](0.25).save("model.json")
assert pr.load("model.json").limit == 0.25

from my_learner import ListwisePassiveAggressive
pr.register(ListwisePassiveAggressive)  # the class that is installed: the name is its own
try:
    pr.register(type("Mine", (pr.RankNet,), {"algorithm": "pair-hinge"}))
except ValueError as error:
    assert str(error) == "algorithm 'pair-hinge' of Mine is taken by pair_hinge.PairHinge", error
else:
    raise AssertionError
"""
    path = os.pathsep.join([str(tmp_path), str(folder), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)


def test_a_name_that_is_taken_is_refused(kinds, tmp_path):
    for name, place in (("slam", "perceptrank.learners.slam.SlamPerceptron"), ("pair-hinge", "PairHinge")):
        with pytest.raises(ValueError, match=rf"algorithm {name!r} of Mine is taken by .*{place}"):
            pr.register(type("Mine", (pr.RankNet,), {"algorithm": name}))
    (tmp_path / "mine.py").write_text(NUMPY + "\n\nclass Other(ListwisePassiveAggressive):\n    algorithm = 'slam'\n")
    before = pr.algorithms()
    assert "is taken by" in fail("--plugin", tmp_path / "mine.py", "algorithms")
    assert pr.algorithms() == before
    pr.register(kinds["pair-hinge"])  # the same class again


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import perceptrank as pr\n\nclass Base(pr.NumpyLearner):\n    pass\n", "defines no learner: a subclass of"),
        ("from perceptrank import RankNet\n", "defines no learner: a subclass of"),
        ("import nothing_of_that_name\n", "cannot be run: ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("def f(:\n", "cannot be run: SyntaxError"),
        ("import perceptrank as pr\n\nclass A(pr.NumpyLearner):\n    algorithm = 'a'\n", "without arguments: .*update"),
        (NUMPY.replace('"listwise-pa"', '"Listwise PA"'), "must be a name of lower-case letters, digits and hyphens"),
    ],
)
def test_a_file_without_a_learner_is_refused(tmp_path, source, message):
    (tmp_path / "mine.py").write_text(source)
    before, modules = pr.algorithms(), set(sys.modules)
    error = fail("--plugin", tmp_path / "mine.py", "algorithms")
    assert re.search(message, error)
    assert error.startswith("error: ")
    assert pr.algorithms() == before
    assert not [name for name in set(sys.modules) - modules if name.startswith("perceptrank_plugin")]


def test_files_of_one_name_are_two_plugins(tmp_path):
    """And a plugin may register a learner that it imports, or that has no docstring and no more than a rule."""
    found = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "mine.py"
        path.write_text(
            "import perceptrank as pr\n\n"
            f"class Mine(pr.NumpyLearner):\n    algorithm = {name!r}\n    learning_rate = 0.5\n"
            "    def __init__(self):\n        self.__post_init__()\n"
            "    def update(self, scores, X, relevance):\n        return relevance\n"
        )
        found += load_file(path)
    one, other = found
    assert one.__module__ != other.__module__
    learner = one()
    learner.learn_one([[1.0, 2.0]], [1])
    assert learner.weights.tolist() == [0.5, 1.0]
    assert learner.get_params() == {}
    assert '"first"' in CliRunner().invoke(app, ["algorithms", "--json"]).stdout
    (tmp_path / "shelf.py").write_text(
        f"import sys\nimport perceptrank as pr\npr.register(sys.modules[{one.__module__!r}].Mine)\n"
    )
    pr.unregister("first")
    assert load_file(tmp_path / "shelf.py") == [one]
    pr.unregister("first")
    pr.unregister("second")


@pytest.mark.parametrize(
    ("taught", "message"),
    [
        (np.ones(3), r"update of Wrong must return a coefficient for each of 2 documents, got shape \(3,\)"),
        (np.array([1.0, np.nan]), "update of Wrong must return finite numbers, got nan"),
        (np.array([1.0, 1e200]), "weights overflow at query number 1"),
    ],
)
def test_a_wrong_update_changes_nothing(taught, message):
    class Wrong(pr.NumpyLearner):
        algorithm = "wrong"

        def update(self, scores, X, relevance):
            return taught if relevance[0] == 2 else relevance

    learner = Wrong()
    learner.learn_one(np.eye(2), [1, 0])
    before = deepcopy(bits(learner))
    with pytest.raises(ValueError, match=message):
        learner.learn_one(np.eye(2), [2, 0])
    assert bits(learner) == before
