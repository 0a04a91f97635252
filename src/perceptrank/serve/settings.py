"""Settings of rankers, and limits of requests."""

import math
from dataclasses import dataclass, fields

from perceptrank.clicks.policies import policy
from perceptrank.stream.validation import ParameterError, check_flag, check_positive_whole

MOST_PLACES = 100  # learning from a list takes time that grows as the cube of its length


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Limits, intervals and exploration of a ranker in the service; numbers are > 0, error rates < 1.

    Attributes
    ----------
    ranking_seconds : float
        How long a ranking waits for its answer.
    rankings, ranking_bytes : int
        How many rankings wait at most, and how many bytes their ids and features take; the oldest expire first.
    waiting_answers, waiting_bytes : int
        How many answers wait at most to be logged, and how many bytes their features and grades take; one alone may
        take more.
    group_answers : int
        How many answers are logged at most with one flush to disk.
    snapshot_seconds : float
        Time after which a snapshot is written, if there is something new.
    snapshot_answers : int
        Number of answers after which one is written before that.
    snapshots : int
        How many snapshots are kept.
    shadow_error : float
        Error rate of what is said about challengers.
    promote_at : float or None
        Error rate at which a challenger that is shown to be better is promoted without asking; by default none is.
    explore : str
        Exploration policy: "own", that of a click learner, and none of others; "none", or one that
        `perceptrank.clicks.policy` knows. Plackett-Luce's temperature is in units of the spread of the scores.
    explore_share : float
        Share of the rankings that are explored.
    challenger_share : float or None
        Share of the explored rankings that challengers rank, if they are compared by fair preferences. These need as
        many lists of the model; all of them are explored by fair pairs. With several challengers, they share it. By
        default 0.1 if challengers are promoted automatically, else 0.
    places : int
        How many documents are shown, if the request does not say.
    judged : bool
        Grades of 0 and 1 are judgements, even if they look like clicks: there is no warning.

    Examples
    --------
    >>> Settings(snapshot_seconds=10.0).snapshots
    20
    """

    ranking_seconds: float = 3600.0
    rankings: int = 100_000
    ranking_bytes: int = 2**28
    waiting_answers: int = 10_000
    waiting_bytes: int = 2**28
    group_answers: int = 512
    snapshot_seconds: float = 60.0
    snapshot_answers: int = 10_000
    snapshots: int = 20
    shadow_error: float = 0.05
    promote_at: float | None = None
    explore: str = "own"
    explore_share: float = 1.0
    challenger_share: float | None = None
    places: int = 10
    judged: bool = False

    def __post_init__(self) -> None:
        _check_positive(self, "promote_at", "explore", "judged", "challenger_share", "explore_share")
        for name in ("shadow_error", "promote_at"):
            if (value := getattr(self, name)) is not None and not value < 1:
                raise ParameterError(name, "must be a probability < 1", value)
        share = self.explore_share
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
            raise ParameterError("explore_share", "must be a probability > 0; explore='none' explores nothing", share)
        share = self.shown_challengers
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 0.5:
            raise ParameterError("challenger_share", "must be a number from 0 to 0.5", share)
        for field in fields(self):
            if field.type is int:
                check_positive_whole(field.name, getattr(self, field.name))
        if self.places > MOST_PLACES:
            raise ParameterError("places", f"must be at most {MOST_PLACES}", self.places)
        check_flag("judged", self.judged)
        try:
            if self.explore != "own":
                policy(self.explore)
        except ValueError:
            choices = "own, none, fair-pairs, plackett-luce:TEMPERATURE, shuffle:K or uniform:SHARE, with numbers > 0"
            raise ParameterError("explore", f"must be {choices}", self.explore) from None

    @property
    def shown_challengers(self) -> float:
        """Share of the explored rankings that are those of challengers."""
        by_default = 0.1 if self.promote_at is not None else 0.0
        return by_default if self.challenger_share is None else self.challenger_share


@dataclass(frozen=True)
class Limits:
    """Limits of requests; all are numbers > 0."""

    body_bytes: int = 2**25
    body_seconds: float = 10.0  # for a body to arrive
    answer_seconds: float = 30.0  # for the answers of a request to be logged
    header_seconds: float = 10.0  # for the line and the headers of a request to arrive
    work_seconds: float = 30.0  # for exports, contributions and the reading of models
    send_seconds: float = 30.0  # that a response waits for its client to go on reading
    rate_limit: float = math.inf  # requests per second of a token, on average
    burst: float | None = None  # requests at once; by default as many as in a second, at least 1

    def __post_init__(self) -> None:
        _check_positive(self, "burst")
        if self.burst is not None and self.burst < 1:
            raise ParameterError("burst", "must be a number >= 1", self.burst)


def _check_positive(settings: Settings | Limits, optional: str, *others: str) -> None:
    for field in fields(settings):
        value = getattr(settings, field.name)
        if (value is None and field.name == optional) or field.name in others:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise ParameterError(field.name, "must be a number > 0", value)
