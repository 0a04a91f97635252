"""The challengers of a ranker: entries of the log that add, remove and promote them, and how they compare."""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from perceptrank.clicks.policies import FairPairs
from perceptrank.io.model_file import model_text
from perceptrank.learners.learner import Learner
from perceptrank.learners.learning import takes_clicks
from perceptrank.measures import parse
from perceptrank.measures.of_clicks import ExpectedClicks
from perceptrank.serve.errors import InvalidRequestError, TooLargeError, UnknownError
from perceptrank.serve.learning import check_bounded, check_width, explores
from perceptrank.serve.log.opening import NAME
from perceptrank.serve.log.records import ChallengerEntry, Entry, PromotionEntry, RemovalEntry
from perceptrank.serve.replay import Current
from perceptrank.serve.settings import Settings
from perceptrank.serve.shadow.evidence import unit_of
from perceptrank.serve.shadow.shadow import Challenger, Promotion, Shadow, check_measure
from perceptrank.serve.submissions import check_promotion
from perceptrank.stream.memory import RoomError

MOST_CHALLENGERS = 16
NEVER_SHOWN = (
    "lists of challengers are never shown, and without them fair preferences cannot tell which is better: set "
    "challenger_share, to 0.1 for example"
)
ONLY_PREFERENCES = "challenger {} is compared by {}, which never promotes: compare by preferences, or promote by hand"
NOT_EXPLORED = (
    "lists are not explored, and clicks on them do not tell what is better: set explore to fair-pairs, for example"
)
NO_VALUE = (
    "challenger {} is compared by {}, which swaps of neighbours do not tell: set explore to shuffle:10, for example"
)
LIKE_CLICKS = (
    "the grades look like clicks, which favour what was shown high: send clicks to POST /v1/clicks, or set judged to "
    "true if they are judgements; until then, grades promote no challenger"
)


class ChallengerStanding(msgspec.Struct):
    """Comparison of a challenger with the model that ranks, since that began to rank.

    Means are of the measure of rankings before their answers were known; the interval is of their expected difference.
    It is better once its evidence is as large as needed. `clicked` and `incumbent_clicked` are mean reciprocal ranks of
    the first click, which favour whatever was shown high: they are no evidence.
    """

    name: str
    algorithm: str
    measure: str
    since_version: int
    answers: int
    incumbent_mean: float | None
    mean: float | None
    difference: float | None
    interval: tuple[float, float]
    evidence: float
    needed_evidence: float
    better: bool
    wins: int
    losses: int
    clicked: float | None
    incumbent_clicked: float | None
    refused_answers: int
    last_refusal: str

    @classmethod
    def of(cls, name: str, challenger: Challenger, error: float) -> "ChallengerStanding":
        """Return the standing of a challenger, at an error rate."""
        compared, is_known = challenger.compared, challenger.compared.n_rounds > 0
        # Rounds of less weight stretch the scale, as the mean is of all.
        unit = unit_of(parse(challenger.measure)) * (compared.n_rounds / challenger.weight if is_known else 1.0)
        low, high = compared.interval(error)
        first, own, n_lists = challenger.clicked
        return cls(
            name=name,
            algorithm=challenger.learner.name,
            measure=challenger.measure,
            since_version=challenger.since,
            answers=compared.n_rounds,
            incumbent_mean=unit * compared.first_mean if is_known else None,
            mean=unit * compared.second_mean if is_known else None,
            difference=unit * compared.difference if is_known else None,
            interval=(unit * low, unit * high),
            evidence=math.exp(min(compared.log_evidence, 690.0)),
            needed_evidence=challenger.needed(error),
            better=challenger.is_better(error),
            wins=challenger.wins,
            losses=challenger.losses,
            clicked=own / n_lists if n_lists else None,
            incumbent_clicked=first / n_lists if n_lists else None,
            refused_answers=challenger.refused,
            last_refusal=challenger.refusal,
        )


class Incumbent(msgspec.Struct):
    """The model that ranks."""

    algorithm: str
    learns: bool


class Standings(msgspec.Struct):
    """The model that ranks, and its challengers; `automatic` if a better one is promoted without asking.

    `withheld` says why challengers cannot be found better, or are not promoted if they are.
    """

    model_version: int
    incumbent: Incumbent
    error: float
    automatic: bool
    withheld: str
    last_promotion: Promotion | None
    challengers: list[ChallengerStanding]

    @classmethod
    def of(cls, current: Current, settings: Settings) -> "Standings":
        """Return how the challengers of a model compare with it."""
        error, shadow = settings.promote_at or settings.shadow_error, current.shadow
        return cls(
            current.version,
            Incumbent(current.learner.name, current.learns),
            error,
            settings.promote_at is not None,
            _why_withheld(current, settings),
            shadow.promotion,
            [ChallengerStanding.of(name, challenger, error) for name, challenger in shadow.challengers.items()],
        )

    def as_plain(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return plain


def check_addition(name: str, measure: str | None, *, explored: bool) -> Callable[[Current, Learner], Entry]:
    """Check the name and the measure of a challenger; return what makes the entry that adds it.

    Without a measure, it is one of clicks if the rankings are explored, or if either model learns from clicks.
    """
    if not NAME.fullmatch(name):
        raise InvalidRequestError(
            f"the name of a challenger must be up to 64 letters, digits, _ and -, got {name[:100]!r}", "choose another"
        )
    try:
        checked = None if measure is None else check_measure(measure)
    except ValueError as error:
        raise InvalidRequestError(str(error), "compare by ndcg@10, for example") from None

    def make(current: Current, model: Learner) -> Entry:
        if name in current.shadow.challengers:
            raise InvalidRequestError(f"there is a challenger {name!r} already", "remove it, or choose another name")
        if len(current.shadow.challengers) >= MOST_CHALLENGERS:
            raise TooLargeError(f"a ranker may have {MOST_CHALLENGERS} challengers", "remove one first")
        what = f"the challenger {name!r}"
        check_bounded(what, model)
        if current.n_features is not None:
            check_challenger_width(name, model, current.n_features, current.names)
            check_promotion(model, current, fixed=not model.learns, what=what)
        by_clicks = explored or takes_clicks(model) or takes_clicks(current.learner)
        return _addition(name, measure=checked or ("preferences" if by_clicks else "ndcg@10"), model=model)

    return make


def check_challenger_width(name: str, learner: Learner, n_features: int, names: tuple[str, ...] | None) -> None:
    """Raise if a challenger has no room for a model of `n_features` features."""
    try:
        check_width(learner, n_features, names)
    except RoomError as error:
        raise TooLargeError(
            f"the challenger {name!r} is too large: {error}", "send fewer features, or leave the challenger out"
        ) from None


def make_removal(current: Current, name: str) -> Entry:
    """Return the entry that removes a challenger."""
    _check_known(current, name)
    return RemovalEntry(time.time_ns(), name)


def make_promotion(current: Current, name: str) -> Entry:
    """Return the entry by which someone promotes a challenger."""
    _check_known(current, name)
    if (challenger := current.shadow.challengers[name]).is_stopped:
        raise InvalidRequestError(f"the challenger {name!r} {challenger.refusal}", "remove it, or promote another")
    check_promotion(challenger.learner, current, fixed=not challenger.learner.learns, what=f"the challenger {name!r}")
    return PromotionEntry(time.time_ns(), name, None)


def due_promotion(current: Current, settings: Settings) -> PromotionEntry | None:
    """Return the promotion that is due, if promotions are automatic and a challenger is shown to be better."""
    if (error := settings.promote_at) is None:
        return None
    name = current.shadow.better(error, by_clicks=not may_promote_by_grades(current, settings))
    return None if name is None else PromotionEntry(time.time_ns(), name, error)


def _why_withheld(current: Current, settings: Settings) -> str:
    """Say why challengers cannot be found better, or are not promoted if they are; empty if they can and are."""
    challengers, reasons = current.shadow.challengers, list[str]()
    by_clicks = {name: each.measure for name, each in challengers.items() if each.is_by_clicks}
    if by_clicks and not explores(current.learner, settings):
        reasons.append(NOT_EXPLORED)
    elif any(each.can_be_shown for each in challengers.values()) and not settings.shown_challengers:
        reasons.append(NEVER_SHOWN)
    estimated = [name for name, each in by_clicks.items() if isinstance(parse(each), ExpectedClicks)]
    if estimated and (settings.explore == FairPairs.name or settings.shown_challengers >= 0.5):
        reasons.append(NO_VALUE.format(estimated[0], by_clicks[estimated[0]]))
    if settings.promote_at is not None:
        reasons += [
            ONLY_PREFERENCES.format(name, by_clicks[name]) for name in by_clicks if not challengers[name].promotes
        ]
        reasons += [] if may_promote_by_grades(current, settings) else [LIKE_CLICKS]
    return "; ".join(reasons)


def grades_are_doubtful(current: Current, settings: Settings) -> bool:
    """Tell whether grades seem to be clicks, which nobody said they are not."""
    return current.looks_like_clicks and not settings.judged


def may_promote_by_grades(current: Current, settings: Settings) -> bool:
    """Tell whether a challenger may be promoted by grades: not if they may be clicks."""
    return settings.judged or current.has_real_grades


def restore_challengers(wanted: Shadow, there: Shadow) -> Iterator[Entry]:
    """Iterate over the entries that replace challengers, which have learned less, by those that are wanted."""
    for name in there.challengers:
        yield RemovalEntry(time.time_ns(), name)
    for name, challenger in wanted.challengers.items():
        yield _addition(name, challenger.measure, challenger.learner)


def _addition(name: str, measure: str, model: Learner) -> ChallengerEntry:
    return ChallengerEntry(time.time_ns(), name, measure, model_text(model.as_document()).encode())


def _check_known(current: Current, name: str) -> None:
    if name not in current.shadow.challengers:
        there = ", ".join(map(repr, current.shadow.challengers)) or "none"
        raise UnknownError(f"there is no challenger {name[:100]!r}", f"there are {there}")
