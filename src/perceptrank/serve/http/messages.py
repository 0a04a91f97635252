"""Bodies of requests and responses; the names of their fields are a promise."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from perceptrank.serve.documents import LONGEST_ID, MOST_DOCUMENTS, Document, Id

MOST_ANSWERS = 10_000

Documents = Annotated[list[Document], Meta(min_length=1, max_length=MOST_DOCUMENTS)]
Grades = Annotated[dict[str, Annotated[float, Meta(ge=0)]], Meta(min_length=1, max_length=MOST_DOCUMENTS)]
Weight = Annotated[float, Meta(ge=0)]
EventId = Annotated[str, Meta(min_length=1, max_length=LONGEST_ID)]
Version = Annotated[int, Meta(ge=1)]


class RankOptions(msgspec.Struct, forbid_unknown_fields=True):
    """Fields of `RankRequest` besides the documents."""

    contributions: bool = False


class RankRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Documents of one query; `contributions` asks for what each feature adds to each score."""

    documents: Documents
    contributions: bool = False


class RankResponse(msgspec.Struct, omit_defaults=True):
    """The ids best first; scores and contributions by id; the version that ranked, and the id to answer with."""

    ranking_id: str
    order: list[str]
    scores: dict[str, float]
    model_version: int
    contributions: dict[str, dict[str, float]] | None = None


class FeedbackRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The answer to a ranking: grades of documents by id.

    Documents without a grade have 0, or are left out with `omit_ungraded`.
    """

    ranking_id: Id
    grades: Grades
    event_id: EventId | None = None
    weight: Weight = 1.0
    omit_ungraded: bool = False


class LearnOptions(msgspec.Struct, forbid_unknown_fields=True):
    """Fields of `LearnRequest` besides the documents."""

    grades: Grades
    event_id: EventId | None = None
    weight: Weight = 1.0
    omit_ungraded: bool = False


class LearnRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A query and its answer at once."""

    documents: Documents
    grades: Grades
    event_id: EventId | None = None
    weight: Weight = 1.0
    omit_ungraded: bool = False


class Acknowledged(msgspec.Struct):
    """The answer is on disk as this entry of the log; `duplicate` if it was before."""

    event_id: str
    sequence: int
    duplicate: bool


class ErrorDetail(msgspec.Struct):
    """The rule that was broken, by name and in words, and what to do next."""

    kind: str
    message: str
    advice: str


class ErrorResponse(msgspec.Struct):
    """A request that was not carried out."""

    error: ErrorDetail


class SeveralResponse(msgspec.Struct):
    """For each answer, in their order, what one alone would have got; the status is 207 if some were not taken."""

    results: list[dict[str, Any]]


class RollbackRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The version to go back to."""

    version: Version


class PromoteRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The model to go on with: a challenger, that of another ranker, or a model document. Exactly one of them.

    With `fixed`, that of another ranker or a document stays as it is.
    """

    ranker: Id | None = None
    model: dict[str, Any] | None = None
    challenger: Id | None = None
    fixed: bool = False


class AddChallengerRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A model that learns silently from now on, and what it is compared by.

    It starts from an algorithm's name, a model document, another ranker's model, or a version of this ranker. Exactly
    one of them.
    """

    name: Id
    algorithm: Id | None = None
    model: dict[str, Any] | None = None
    ranker: Id | None = None
    version: Version | None = None
    measure: Id = "ndcg@10"


class RemoveChallengerRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The challenger that is to go."""

    name: Id


class Standing(msgspec.Struct):
    """The standing of a challenger, since it is compared with the model that ranks now.

    Means are of the measure of rankings before their answers were known. The interval is of the mean expected
    difference. It is better once its evidence is as large as needed.
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
    refused_answers: int
    last_refusal: str


class Incumbent(msgspec.Struct):
    """The model that ranks."""

    algorithm: str
    learns: bool


class LastPromotion(msgspec.Struct):
    """The challenger that was promoted last, the version that this made, and the error rate, null if done by hand."""

    model_version: int
    name: str
    error: float | None


class StandingsResponse(msgspec.Struct):
    """The model that ranks, and its challengers; `automatic` if one that is better is promoted without asking."""

    model_version: int
    incumbent: Incumbent
    error: float
    automatic: bool
    last_promotion: LastPromotion | None
    challengers: list[Standing]


class VersionResponse(msgspec.Struct):
    """The version that ranks now."""

    model_version: int


class VersionsResponse(msgspec.Struct):
    """The version that ranks now, and those that have a snapshot, newest first; any from 1 on can be gone back to."""

    model_version: int
    snapshots: list[int]


FeedbackBody = FeedbackRequest | Annotated[list[FeedbackRequest], Meta(min_length=1, max_length=MOST_ANSWERS)]
