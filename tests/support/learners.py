"""The learners that shared checks go over, found by themselves, and what the checks ask of them.

A check names how much of it belongs to every run of the suite: all settings, each learner once, or one learner per
implementation. Whatever is left of the settings, `make deep` checks as well.
"""

from itertools import product

import pytest

import perceptrank as pr

FEW = {"n_members": 3, "n_trees": 2, "first_fit": 4}  # of settings that decide how much there is to do


def wrapped(wrapper, kind):
    """A constructor without arguments, of the wrapper around this learner; None if it does not take the learner."""
    few = {name: value for name, value in FEW.items() if name in wrapper.parameter_names}
    try:
        wrapper(kind(), **few)
    except ValueError:
        return None
    return lambda: wrapper(kind(), **few)


def all_wrapped(wrapper, takes=None):
    """The wrapper around every learner that it takes, or those among them that learn from lists, pairs or documents."""
    kinds = (kind for kind in pr.algorithms().values() if takes in (None, kind.takes))
    return {f"{wrapper.algorithm}:{kind.algorithm}": make for kind in kinds if (make := wrapped(wrapper, kind))}


LEARNERS = dict(pr.algorithms())
for wrapper in pr.wrappers().values():
    LEARNERS |= dict(list(all_wrapped(wrapper).items())[:1])


def implementation(learner):
    """What code that learners share may depend on: what they learn from, or how they are made of other learners."""
    is_composite = "learner" in learner.parameter_names or "learners" in learner.parameter_names
    return type(learner) if is_composite else learner.takes


# One learner for each implementation, the first.
IMPLEMENTATIONS = {implementation(make()): name for name, make in reversed(LEARNERS.items())}

SETTINGS = dict(LEARNERS)
for name, kind in pr.algorithms().items():
    if "average" in kind.parameter_names:
        SETTINGS[f"{name} averaged"] = lambda kind=kind: kind(average=True)
    SETTINGS[f"{name} scaled"] = lambda kind=kind: kind(transforms=["query-minmax", "running"])
for wrapper, takes in product(pr.wrappers().values(), ("lists", "pairs", "documents")):
    SETTINGS |= dict(list(all_wrapped(wrapper, takes).items())[-1:])
SETTINGS |= {
    "tournament hedge": lambda: pr.Tournament.over(
        pr.ListwisePerceptron, relative_margin=[0.1, 1, 3], tournament={"strategy": "hedge", "seed": 3}
    ),
    "tournament of all kinds": lambda: pr.Tournament(
        [pr.SlamPerceptron(), pr.OnlineListNet(), pr.Perceptron(), pr.ListwisePerceptron("ap")], measure="ap"
    ),
    "tournament of wrappers": lambda: pr.Tournament(
        [pr.Bagging(pr.MinimaxPerceptron(), n_members=2), pr.AdaGrad(pr.Perceptron())]
    ),
    "tournament with a sum": lambda: pr.Tournament([pr.SlamPerceptron(), pr.Sum()]),
    "bagging of a sum": lambda: pr.Bagging(pr.Sum(), n_members=2),
    "bagging of a tournament": lambda: pr.Bagging(
        pr.Tournament.over(pr.ListwisePerceptron, relative_margin=[0.5, 1], transforms=[None]), n_members=3
    ),
    "bagging of adagrad": lambda: pr.Bagging(pr.AdaGrad(pr.RankNet(average=True)), n_members=2, seed=4),
    "bagging scaled": lambda: pr.Bagging(pr.SlamPerceptron(), transforms="running"),
    "adagrad norm": lambda: pr.AdaGrad(pr.ListwisePerceptron(), steps="norm"),
    "adagrad scaled": lambda: pr.AdaGrad(pr.OnlineListNet(0.1, target="gains", transforms="running"), steps="norm"),
    "listwise top": lambda: pr.ListwisePerceptron(violators="top", class_order="mean"),
    "listwise margin": lambda: pr.ListwisePerceptron("ndcg@3", margin=1.0, learning_rate=0.1, average=False),
    "listwise ap": lambda: pr.ListwisePerceptron("ap", class_order="index"),
    "slam ap": lambda: pr.SlamPerceptron("ap", class_order="index"),
    "slam ndcg mean": lambda: pr.SlamPerceptron("ndcg", class_order="mean"),
}

# Scaling happens before the learner sees the features, and averaging after its step, in code that all share: once for
# each implementation shows what can differ.
EVERY_SETTING = set(SETTINGS) - {
    f"{name} {how}" for name in set(LEARNERS) - set(IMPLEMENTATIONS.values()) for how in ("scaled", "averaged")
}


def checks(suite, where=lambda learner: True, settings=SETTINGS):
    """Parametrize by `make`, over all settings that `where` is true of; those not in `suite` are left to deep runs."""
    return pytest.mark.parametrize(
        "make",
        [
            pytest.param(make, id=name, marks=() if name in suite else pytest.mark.deep)
            for name, make in settings.items()
            if where(make())
        ],
    )


every_setting = checks(EVERY_SETTING)
every_learner = checks(LEARNERS)
every_implementation = checks(IMPLEMENTATIONS.values())
every_kind = pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=name, marks=() if name in IMPLEMENTATIONS.values() else pytest.mark.deep)
        for name, kind in pr.algorithms().items()
    ],
)


def innermost(learner):
    """The learners that have weights: itself, or those it is made of."""
    if not hasattr(learner, "members"):
        return [learner]
    return [inner for member in learner.members for inner in innermost(member)]


def taken_by(learner):
    """What a learner, or the one it is around, learns from."""
    return taken_by(learner.learner) if hasattr(learner, "learner") else learner.takes


def classifies(learner):
    """Whether a learner, or the one it is around, takes single examples with labels of -1 and 1."""
    return classifies(learner.learner) if hasattr(learner, "learner") else hasattr(learner, "classify")


def scales(learner):
    """Whether a learner, or one of those it is made of, scales features."""
    return bool(learner.transforms_) or any(scales(one) for one in getattr(learner, "members", ()))


def current_of(learner):
    """The numbers that a learner ranks by, current ones: weights, or coefficients of documents."""
    return learner.weights if learner.model.is_linear else learner.model.supports.coefficients


def used_of(learner):
    """The numbers that it ranks with: weights, or coefficients of documents."""
    return learner.coef_ if learner.model.is_linear else learner.dual_coef_


def bits(learner):
    """All that a learner has learned."""
    document = learner.as_document()
    del document["parameters"]
    return document


def at_weights(learner, weights):
    """A learner that has learned something, with other weights; so are those it is made of."""
    document = learner.as_document()
    parts = [document]
    for part in parts:
        parts += part.get("members", [])
        if "weights" in (part["state"] or {}):
            part["state"]["weights"] = [float(one) for one in weights]
    return type(learner).from_document(document)
