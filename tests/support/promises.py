"""Bounds of theorems by keywords, the learner's settings and what is known of the stream together."""

from perceptrank.theory import theorems


def slam(*, learning_rate, surrogate_margin=1.0, **known):
    """Bound Algorithm 2's loss at any rate."""
    return theorems.slam(learning_rate, surrogate_margin).bound(**known)


def slam_as_in_the_paper(*, n_documents, weight_ratio, **known):
    """Bound Algorithm 2's loss as the paper does."""
    return theorems.slam_as_in_the_paper(n_documents, weight_ratio).bound(**known)


def listwise(*, relative_margin=1.0, violators="places", surrogate_margin=None, learning_rate=1.0, **known):
    """Bound the loss of the listwise perceptron, and that of mixing it: with a relative or an absolute margin."""
    splits = violators == "top"
    if surrogate_margin is None:
        return theorems.listwise(relative_margin, splits=splits).bound(**known)
    return theorems.slam(learning_rate, surrogate_margin, "level-pair", splits=splits).bound(**known)


def parameter_mixing(*, relative_margin=None, surrogate_margin=1.0, **known):
    """Bound the loss of iterative parameter mixing, which is that of the rule that is mixed."""
    if relative_margin is not None:
        return listwise(relative_margin=relative_margin, **known)
    return listwise(surrogate_margin=surrogate_margin, **known)
