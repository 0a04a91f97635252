"""Errors of the service: the same classes in the engine, in HTTP responses and in the client."""

from __future__ import annotations

from typing import Any, ClassVar, Self

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

    def __init_subclass__(cls) -> None:
        KINDS[cls.kind] = cls

    def as_plain(self) -> dict[str, Any]:
        """Return it as the body of a response."""
        return {"error": {"kind": self.kind, "message": self.message, "advice": self.advice}}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.advice)


class InvalidRequestError(ServiceError, ValueError):
    """A request that breaks a rule for its values."""

    kind = "invalid_request"
    status = 422


class UnknownError(ServiceError, LookupError):
    """A request for something that is not there: a path, a ranker, a version."""

    kind = "unknown"
    status = 404


class UnknownRankingError(ServiceError, LookupError):
    """An answer to a ranking that this service never made."""

    kind = "unknown_ranking"
    status = 404


class ExpiredRankingError(ServiceError, LookupError):
    """An answer to a ranking that is no longer remembered."""

    kind = "expired_ranking"
    status = 410


class EventConflictError(ServiceError, ValueError):
    """An event id that was used for another answer."""

    kind = "event_conflict"
    status = 409


class FeatureMismatchError(ServiceError, ValueError):
    """Documents whose features are not those that the ranker has."""

    kind = "feature_mismatch"
    status = 422


class UnauthorizedError(ServiceError, PermissionError):
    """A request without a token that is known."""

    kind = "unauthorized"
    status = 401


class ForbiddenError(ServiceError, PermissionError):
    """A token without the scope that a request needs."""

    kind = "forbidden"
    status = 403


class NotAllowedError(ServiceError, PermissionError):
    """A method that a path does not have."""

    kind = "not_allowed"
    status = 405


class TooLargeError(ServiceError, ValueError):
    """A request beyond a limit of size or number."""

    kind = "too_large"
    status = 413


class TooSlowError(ServiceError, TimeoutError):
    """A request that did not arrive, or could not be carried out, in time."""

    kind = "too_slow"
    status = 408


class RateLimitedError(ServiceError, OSError):
    """More requests than the token may send.

    Attributes
    ----------
    retry_after : float
        Seconds to wait.
    """

    kind = "rate_limited"
    status = 429
    retry_after: float = 1.0

    @classmethod
    def after(cls, seconds: float, rate: float) -> Self:
        """Return the error for a token that must wait."""
        error = cls(f"more than {rate:g} requests per second", f"send it again in {seconds:.3g} seconds")
        error.retry_after = seconds
        return error


class OverloadedError(ServiceError, OSError):
    """More answers wait to be logged than the service takes."""

    kind = "overloaded"
    status = 503


class LearningOffError(ServiceError, OSError):
    """The log cannot be written, so that no answer is taken; ranking goes on."""

    kind = "learning_off"
    status = 507


class DamagedLogError(ServiceError, ValueError):
    """A log that cannot be trusted."""

    kind = "damaged_log"
