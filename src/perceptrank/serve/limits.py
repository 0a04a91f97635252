"""Limits of requests."""

import math
from dataclasses import dataclass, fields

from perceptrank.stream.validation import ParameterError


@dataclass(frozen=True)
class Limits:
    """Limits of requests; all are numbers > 0.

    Attributes
    ----------
    body_bytes : int
        How many bytes a body may have.
    body_seconds : float
        How long a body may take to arrive.
    answer_seconds : float
        How long the answers of a request may take to be logged.
    header_seconds : float
        How long the line and the headers of a request may take to arrive.
    work_seconds : float
        How long exports, contributions and the reading of models may take.
    send_seconds : float
        How long a response may wait for its client to go on reading.
    rate_limit : float
        How many requests per second each token may send on the average.
    burst : float
        How many of them at once; by default as many as in a second, at least 1.
    """

    body_bytes: int = 2**25
    body_seconds: float = 10.0
    answer_seconds: float = 30.0
    header_seconds: float = 10.0
    work_seconds: float = 30.0
    send_seconds: float = 30.0
    rate_limit: float = math.inf
    burst: float | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is None and one.name == "burst":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise ParameterError(one.name, "must be a number > 0", value)
        if self.burst is not None and self.burst < 1:
            raise ParameterError("burst", "must be a number >= 1", self.burst)
