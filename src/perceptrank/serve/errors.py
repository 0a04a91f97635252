"""Errors of the service: the same classes in the engine, in HTTP responses and in the client."""

from __future__ import annotations

from typing import Any, ClassVar

KINDS: dict[str, type[ServiceError]] = {}  # all errors by their kinds


class ServiceError(Exception):
    """A request that the service cannot carry out.

    Attributes
    ----------
    kind : str
        Name of the rule, as responses spell it; it never changes.
    status : int
        Status of the HTTP response.
    message, advice : str
        The rule with what was given, and what to do next.
    """

    kind: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(f"{message}; {advice}" if advice else message)
        self.message, self.advice = message, advice

    def __init_subclass__(cls, *, kind: str, status: int = 500) -> None:
        cls.kind, cls.status = kind, status
        KINDS[kind] = cls

    def as_plain(self) -> dict[str, Any]:
        """Return it as the body of a response."""
        return {"error": {"kind": self.kind, "message": self.message, "advice": self.advice}}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.advice)


class InvalidRequestError(ServiceError, ValueError, kind="invalid_request", status=422):
    """A request that breaks a rule for its values."""


class UnknownError(ServiceError, LookupError, kind="unknown", status=404):
    """A request for something that is not there: a path, a ranker, a version."""


class UnknownRankingError(ServiceError, LookupError, kind="unknown_ranking", status=404):
    """An answer to a ranking that this service never made."""


class ExpiredRankingError(ServiceError, LookupError, kind="expired_ranking", status=410):
    """An answer to a ranking that is no longer remembered."""


class EventConflictError(ServiceError, ValueError, kind="event_conflict", status=409):
    """An event id that was used for another answer."""


class FeatureMismatchError(ServiceError, ValueError, kind="feature_mismatch", status=422):
    """Documents whose features are not those that the ranker has."""


class UnauthorizedError(ServiceError, PermissionError, kind="unauthorized", status=401):
    """A request without a token that is known."""


class ForbiddenError(ServiceError, PermissionError, kind="forbidden", status=403):
    """A token without the scope that a request needs."""


class ReadOnlyError(ServiceError, PermissionError, kind="read_only", status=403):
    """A change that a replica cannot make: only the primary can."""


class NotAllowedError(ServiceError, PermissionError, kind="not_allowed", status=405):
    """A method that a path does not have."""


class TooLargeError(ServiceError, ValueError, kind="too_large", status=413):
    """A request beyond a limit of size or number."""


class TooSlowError(ServiceError, TimeoutError, kind="too_slow", status=408):
    """A request that did not arrive, or could not be carried out, in time."""


class RateLimitedError(ServiceError, OSError, kind="rate_limited", status=429):
    """More requests than the token may send."""

    retry_after: float = 1.0  # seconds to wait


class OverloadedError(ServiceError, OSError, kind="overloaded", status=503):
    """More answers wait to be logged than the service takes."""


class LearningOffError(ServiceError, OSError, kind="learning_off", status=507):
    """The log cannot be written, so that no answer is taken; ranking goes on."""


class DamagedLogError(ServiceError, ValueError, kind="damaged_log"):
    """A log that cannot be trusted."""
