"""Simulated interaction: a learner shows lists to a simulated user, and learns from each click at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from perceptrank.clicks.policies import Policy
from perceptrank.clicks.users.user import User, check_user
from perceptrank.evaluation.trace import Trace
from perceptrank.learners.clicks.showing import show_list
from perceptrank.learners.learning import measure_of
from perceptrank.measures import MeasureLike, parse_all
from perceptrank.stream.columns import RELEVANCE
from perceptrank.stream.query_stream import QueryStream, missing_columns
from perceptrank.stream.validation import check_positive_whole, check_seed


def learn_from_user(
    ranker: Any,
    stream: QueryStream,
    user: User,
    impressions: int,
    *,
    n: int = 10,
    policy: str | Policy | None = None,
    measures: Iterable[MeasureLike] | MeasureLike | None = None,
    seed: int = 0,
) -> Trace:
    """Let a click learner show lists to a simulated user, and learn from the clicks on each before it shows the next.

    The grades of the stream decide what the user clicks; the learner never sees them.

    Parameters
    ----------
    ranker : learner that learns from clicks
        It continues from its current state.
    stream : QueryStream
        Graded queries; each impression is of a query drawn uniformly.
    user : User
        Such as ``pr.clicks.user("navigational")``.
    impressions : int
        Number of lists.
    n : int
        Number of documents to show; shorter lists are shown in full.
    policy : str or Policy, optional
        Exploration policy; by default the learner's own.
    measures : str, Measure or list of them, optional
        Measures of the lists as they were shown, with exploration; by default NDCG@10.
    seed : int
        Seed of the queries drawn, of exploration and of the user.

    Returns
    -------
    Trace
        The measures of every list shown. `perceptrank.evaluate` tells how well the learner ranks without exploration.

    Raises
    ------
    ValueError
        If the stream has no grades or no queries, the user does not know its grades, or an argument is invalid.

    Examples
    --------
    >>> import perceptrank as pr
    >>> train, test = pr.mslr_shaped(200, n_documents=15, n_features=8, seed=1).split(0.5)
    >>> ranker = pr.ClickPerceptron()
    >>> trace = learn_from_user(ranker, train, pr.clicks.user("navigational"), 1000)
    >>> before, after = trace[:100].mean("ndcg@10"), trace[-100:].mean("ndcg@10")
    >>> after > before + 0.05, pr.evaluate(ranker, test, "ndcg@10").mean("ndcg@10") > before
    (True, True)
    """
    check_user("user", user)
    check_positive_whole("impressions", impressions)
    check_seed(seed)
    if RELEVANCE not in stream.columns:
        raise missing_columns(stream, "learn_from_user", (RELEVANCE,))
    if not len(stream):
        raise ValueError("the stream has no queries")
    recorded = [measure_of(ranker)] if measures is None else parse_all(measures)
    drawing, showing, clicking = (np.random.default_rng([seed, i]) for i in range(3))
    values: dict[Any, list[float]] = {measure: [] for measure in recorded}
    moved = []
    for q in drawing.integers(len(stream), size=impressions).tolist():
        query = stream[q]
        shown = show_list(ranker, query.X, stream.feature_names, n, policy, showing)
        moved.append(ranker.learn_clicks(shown, user.click(query.relevance[shown.order], clicking)))
        scores = np.zeros(len(query.relevance))
        scores[shown.order] = np.arange(len(shown.order), 0, -1)
        for measure in recorded:
            values[measure].append(measure(scores, query.relevance))
    return Trace({measure: np.array(each) for measure, each in values.items()}, np.array(moved, dtype=np.float64))
