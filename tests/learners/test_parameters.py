"""The settings of every learner: read, set, refused, and fixed once something was learned that depends on them."""

import pytest
from support.learners import bits, every_implementation, every_learner

import perceptrank as pr


@every_learner
def test_parameters_can_be_read_set_and_shown(make):
    learner = make()
    other = type(learner)(**learner.get_params(deep=False))
    assert other.get_params() == learner.get_params()
    assert repr(learner).startswith(type(learner).__name__)
    with pytest.raises(ValueError, match="has no parameter 'foo'"):
        learner.set_params(foo=1)
    before = learner.get_params()
    for name, wrong in {"learning_rate": 0, "average": "yes", "transforms": "none"}.items():
        if name not in learner.parameter_names:
            continue
        with pytest.raises(ValueError, match=name):
            learner.set_params(**{name: wrong})
        assert learner.get_params() == before
        with pytest.raises(ValueError, match=name):
            type(learner)(**learner.get_params(deep=False) | {name: wrong})


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), "0.1", None])
@pytest.mark.parametrize("kind", [kind for kind in pr.algorithms().values() if "learning_rate" in kind.parameter_names])
def test_wrong_learning_rates(kind, wrong):
    with pytest.raises(ValueError, match="learning_rate must be a number > 0, got"):
        kind(learning_rate=wrong)


def test_a_changed_parameter_takes_effect():
    learner = pr.SlamPerceptron("ap", learning_rate=1.0)
    learner.learning_rate = 0.5
    learner.learn_one([[1.0], [0.0]], [0, 1])
    assert learner.weights.tolist() == [-0.5]
    listwise = pr.ListwisePerceptron()
    listwise.set_params(relative_margin=None, margin=0.5)
    listwise.margin = None
    listwise.transforms = "running"
    listwise.learn_one([[1.0], [3.0]], [0, 1])
    assert listwise.transforms_[0].count == 2


WRONG = {
    "learning_rate": [-1, 10**400, 1j],
    "average": ["no"],
    "transforms": ["bogus", 5, [["running"]], (name for name in ["running"])],
}


@every_implementation
def test_a_wrong_parameter_is_refused_and_the_old_one_kept(make, stream):
    learner = make()
    learner.learn(stream)
    before = learner.get_params(), bits(learner)
    for name, wrong in ((one, wrong) for one in learner.parameter_names for wrong in WRONG.get(one, [])):
        with pytest.raises(ValueError, match=name):
            setattr(learner, name, wrong)
        with pytest.raises(ValueError, match=name):
            learner.set_params(**{name: wrong})
        assert (learner.get_params(), bits(learner)) == before


def test_a_refused_parameter_leaves_the_scaling_alone(stream):
    learner = pr.ListwisePerceptron(transforms="running")
    learner.transforms_[0].learn(stream).freeze()
    before = bits(learner)
    for name, wrong in {"margin": -1, "transforms": "bogus"}.items():
        with pytest.raises(ValueError, match=name):
            setattr(learner, name, wrong)
        assert bits(learner) == before


def test_at_most_one_margin():
    for margin in (0, 1.0):
        with pytest.raises(ValueError, match="margin or relative_margin, not both"):
            pr.ListwisePerceptron(margin=margin, relative_margin=0.5)
    for name in ("margin", "relative_margin"):
        with pytest.raises(ValueError, match=f"{name} must be a number >= 0 or None, got -1"):
            pr.ListwisePerceptron(**{name: -1})
    with pytest.raises(ValueError, match="violators must be one of 'places', 'uniform', 'top'"):
        pr.ListwisePerceptron(violators="all")


@pytest.mark.parametrize("kind", pr.algorithms().values())
def test_every_learner_says_what_it_takes_costs_and_promises(kind):
    assert kind.takes in ("lists", "pairs", "documents")
    assert kind.cost
    theorem = kind().theorem
    # C is that of the weight moved; if the bound on the loss is smaller, that is the promise.
    assert theorem.surrogate is None or theorem.splits or theorem.symbol in theorem.statement
    assert "Reference" in kind.__doc__ or kind in (pr.ListwisePerceptron,)


FIXED = [
    (pr.PRank(), "n_grades", 9),
    (pr.MarginPRank(), "n_grades", 9),
    (pr.OapBpm(), "n_members", 30),
    (pr.OapBpm(), "n_grades", 9),
    (pr.CommitteePerceptron(), "n_members", 30),
    (pr.BufferedPairwise(), "buffer_size", 300),
    (pr.OnlineRidge(), "penalty", 10.0),
    (pr.OnlineRidge(), "target", "gains"),
    (pr.SolarII(), "covariance", "full"),
    (pr.SolarII(covariance="full"), "covariance", "diagonal"),
    (pr.AdaGrad(pr.RankNet()), "steps", "norm"),
    (pr.AdaGrad(pr.RankNet()), "learner", pr.OnlineListNet()),
    (pr.Bagging(pr.RankNet()), "learner", pr.OnlineListNet()),
    (pr.Bagging(pr.RankNet()), "n_members", 3),
    (pr.Bagging(pr.RankNet()), "seed", 7),
    (pr.Forgetting(pr.RankNet()), "half_lives", [7.0]),
    (pr.Forgetting(pr.RankNet()), "measure", "ap"),
    (pr.Sum(), "learners", [pr.SlamPerceptron()]),
    (pr.Tournament(), "learners", [pr.SlamPerceptron()]),
    (pr.Tournament(), "measure", "ap"),
    (pr.WithTrees(), "n_trees", 7),
    (pr.WithTrees(), "memory", 1.0),
    (pr.WithTrees(), "first_fit", 7),
    (pr.WithTrees(), "seed", 7),
    (pr.WithTrees(), "learner", pr.SlamPerceptron()),
    *(
        (pr.KernelPerceptron(policy="random"), name, value)
        for name, value in {
            "rule": "minimax",
            "kernel": "polynomial",
            "width": 2.0,
            "relative_width": 2.0,
            "linear": 1.0,
            "degree": 3,
            "budget": 50,
            "policy": "bogd",
            "decay": 3.0,
        }.items()
    ),
    *(
        (kind(), name, value)
        for kind in pr.algorithms().values()
        if "initial_weights" in kind.parameter_names
        for name, value in (("initial_weights", {0: 1.0}), ("positive", [0]), ("negative", [1]), ("zero", 0))
    ),
]


def test_all_that_is_fixed_is_tested():
    kinds = pr.algorithms() | pr.wrappers()
    assert {(kind, name) for kind in kinds.values() for name in kind.fixed} <= {
        (type(learner), name) for learner, name, _ in FIXED
    }


def in_suite(learner, name):
    """Signs of weights compile a learner anew: two do so in every run."""
    return name not in ("positive", "negative", "zero") or learner.algorithm in ("category-ranking", "listwise")


@pytest.mark.parametrize(
    ("learner", "name", "value"),
    [pytest.param(*one, marks=() if in_suite(*one[:2]) else pytest.mark.deep) for one in FIXED],
)
def test_what_was_learned_depends_on_cannot_be_changed(learner, name, value, stream, tmp_path):
    before_learning = type(learner)(**learner.get_params(deep=False)).set_params(**{name: value})
    assert getattr(before_learning, name) == value
    before_learning.learn(stream)
    learner = type(learner)(**learner.get_params(deep=False))
    learner.learn(stream)
    learner.set_params(**{name: getattr(learner, name)})
    kept = bits(learner), learner.get_params()
    with pytest.raises(ValueError, match=f"{name} cannot be changed"):
        setattr(learner, name, value)
    assert (bits(learner), learner.get_params()) == kept
    learner.save(tmp_path / "model.json")
    assert bits(pr.load(tmp_path / "model.json")) == bits(learner)


@pytest.mark.parametrize("learner", [pr.OnlineListNet(), pr.SlamPerceptron(), pr.UnevenMargins()])
def test_a_change_that_is_wrong_in_part_changes_nothing(learner, stream):
    fresh = type(learner)()
    wrong = "target" if "target" in learner.parameter_names else "margin"
    with pytest.raises(ValueError, match=wrong):
        learner.set_params(learning_rate=5.0, **{wrong: "x"})
    for one in (learner, fresh):
        one.learn(stream)
    assert learner.as_document() == fresh.as_document()
