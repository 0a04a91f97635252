"""Exploration: which documents are shown in which order, by which policy and with which coins."""

import time
from hashlib import blake2b
from typing import NamedTuple

import msgspec
import numpy as np

from perceptrank.clicks.policies import FairPairs, NoExploration, PlackettLuce, Shown, policy
from perceptrank.kernels.arrays import Floats
from perceptrank.learners.clicks.impression import Impression
from perceptrank.learners.clicks.showing import show_list
from perceptrank.learners.learner import Learner
from perceptrank.learners.learning import check_policies, one_query, ready_model, takes_clicks
from perceptrank.serve.documents import Arranged
from perceptrank.serve.errors import InvalidRequestError
from perceptrank.serve.learning import columns_for, explores
from perceptrank.serve.replay import Current
from perceptrank.serve.settings import MOST_PLACES, Settings
from perceptrank.serve.shadow.evidence import draft_teams
from perceptrank.stream.validation import is_whole


class Showing(NamedTuple):
    """Wishes of a request about how its ranking is shown.

    Attributes
    ----------
    shown : bool
        It is shown, also if it is not explored.
    explore : bool
        It may be explored.
    places : int or None
        How many documents are shown; by default as many as the settings say.
    keep : int
        How many of the best documents stay where they are.
    session, user_query : str or None
        Who asks for what: the same list is shown again.
    """

    shown: bool = False
    explore: bool = True
    places: int | None = None
    keep: int = 0
    session: str | None = None
    user_query: str | None = None

    def check(self) -> None:
        """Raise if a number is invalid."""
        for name, least in (("places", 1), ("keep", 0)):
            value = getattr(self, name)
            if value is not None and not (is_whole(value) and least <= value <= MOST_PLACES):
                rule = f"{name} must be a whole number from {least} to {MOST_PLACES}"
                raise InvalidRequestError(f"{rule}, got {value}", "show fewer")


class Listed(NamedTuple):
    """Documents as they are shown; fields are those of `ShownEntry`. Rankings that are not shown have no clicks yet."""

    order: list[int]
    base: list[int]
    policy: str
    propensity: Floats
    coins: int
    user_query: str | None
    is_shown: bool
    by: str
    chances: dict[str, float]
    version: int

    def as_repeated(self) -> "Listed":
        """Return the same list as one that is not random: what its coins say was counted before."""
        certain = np.ones(len(self.order))
        return self._replace(base=self.order, policy=NoExploration.name, propensity=certain, by="", chances={})


NOT_SHOWN = Listed([], [], NoExploration.name, np.empty(0), 0, None, False, "", {}, 0)


class Explorer:
    """Chooses the lists that a ranker shows."""

    def __init__(self, settings: Settings, secret: bytes) -> None:
        self._settings, self._secret = settings, secret
        self._policy = None if settings.explore == "own" else policy(settings.explore)

    def check(self, learner: Learner) -> None:
        """Raise if a learner cannot learn from the lists of the policy."""
        if self._policy is not None and self._policy.name != "none" and takes_clicks(learner):
            try:
                check_policies(learner, {self._policy.name})
            except ValueError as error:
                raise InvalidRequestError(str(error), "set explore to own, or to a policy that it takes") from None

    def draw_coins(self, *what: bytes | int) -> int:
        """Return the seed of a list, by what it stands for, such as the start of the process and its number."""
        content = msgspec.msgpack.encode(what)
        return int.from_bytes(blake2b(content, digest_size=8, key=self._secret).digest()) >> 1

    def draw_session(self, query: bytes) -> tuple[int, int]:
        """Return the seed of what a session asks for, the same for a while in all processes, and the one before it."""
        period = int(time.time() // self._settings.ranking_seconds)
        return self.draw_coins(query, period), self.draw_coins(query, period - 1)

    def list_documents(
        self, current: Current, arranged: Arranged, scores: Floats, ranked: list[int], showing: Showing, coins: int
    ) -> Listed:
        """Choose the documents to show, given the scores that the model ranks by, and its ranking."""
        n, query = showing.places or self._settings.places, showing.user_query
        base, by, chances = ranked[:n], "", dict[str, float]()
        order, policy, propensity = base, NoExploration.name, np.ones(len(base))
        may_explore = showing.explore and explores(current.learner, self._settings)
        if may_explore and (rng := np.random.default_rng(coins)).random() < self._settings.explore_share:
            by, chances, other = self._choose_ranker(current, arranged, rng)
            drawn: Impression | Shown
            if other is not None and current.shadow.challengers[by].is_interleaved:
                drawn = draft_teams(scores, other, n, showing.keep, rng)
            else:
                scores = scores if other is None else other
                base = np.argsort(-scores, kind="stable")[:n].tolist()
                drawn = self._draw(None if chances else current.learner, arranged, scores, n, showing.keep, rng)
            order, policy, propensity = drawn.order.tolist(), drawn.policy, drawn.propensity
        is_shown = may_explore or showing.shown
        return Listed(order, base, policy, propensity, coins, query, is_shown, by, chances, current.version)

    def _choose_ranker(
        self, current: Current, arranged: Arranged, rng: np.random.Generator
    ) -> tuple[str, dict[str, float], Floats | None]:
        """Draw whose ranking is explored; return its name, everybody's chances, and its scores if it is a challenger.

        There are chances if the list is for a comparison. For each challenger, the model ranks as many lists as it
        does, or they share all of them if it is interleaved.
        """
        share = self._settings.shown_challengers
        rivals = {name: one for name, one in current.shadow.challengers.items() if share and one.can_be_shown}
        if not rivals or rng.random() >= 2 * share:
            return "", {}, None
        own = {name: (1.0 if one.is_interleaved else 0.5) / len(rivals) for name, one in rivals.items()}
        chances = {"": max(0.0, 1.0 - sum(own.values()))} | own
        by = str(rng.choice(list(chances), p=list(chances.values())))
        try:
            return by, chances, self._score(rivals[by].learner, arranged) if by else None
        except ValueError:  # it could not rank this query whatever the coin says
            return "", {}, None

    @staticmethod
    def _score(learner: Learner, arranged: Arranged) -> Floats:
        X, names = columns_for(learner, arranged.X, arranged.names)
        model = ready_model(learner, X.shape[1], names)
        return model.block_scores(X, one_query(len(X)), names or model.feature_names)

    def _draw(
        self, learner: Learner | None, arranged: Arranged, scores: Floats, n: int, keep: int, rng: np.random.Generator
    ) -> Impression | Shown:
        """Draw a list by the policy of the settings, or of a click learner; for comparisons, by fair pairs."""
        if learner is None:
            return FairPairs().show(scores, n, rng, keep=keep)
        if takes_clicks(learner):
            X, names = columns_for(learner, arranged.X, arranged.names)
            return show_list(learner, X, names, n, self._policy, rng, keep)
        assert self._policy is not None
        if isinstance(self._policy, PlackettLuce) and (spread := float(scores.std())) > 0.0:
            scores = (scores - scores.mean()) / spread  # so that a temperature means the same for any model
        return self._policy.show(scores, n, rng, keep=keep)
