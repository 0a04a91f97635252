"""Ranking measures as values: ``NDCG(k=10) == parse("ndcg@10")``.

Formulas, for documents ranked by score (best first) with grades R:

- NDCG_k = sum over ranks i <= k of G(R_i) / log2(1 + i), divided by the largest such sum; G(r) = 2^r - 1, or r.
- AP = mean, over the relevant documents (R > 0), of the precision at their rank.
- P_k = relevant documents among the first k, divided by k.
- RR_k = 1 / rank of the first relevant document, 0 if it comes after rank k.
- ERR_k = sum over ranks i <= k of p_i / i times the product of (1 - p_j) over j < i, p = (2^R - 1) / 2^max_grade.

Two policies belong to every measure. ``ties`` orders documents of equal score: ``worst`` (less relevant first),
``stable`` (input order), ``reverse`` (input order backwards), ``random`` (seeded), ``expected`` (mean over all orders).
``empty`` says what a query without a relevant document counts: nothing (``skip``), ``one`` or ``zero``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.measures import measure_pass as kernel
from perceptrank.measures import weights as weights_kernel
from perceptrank.stream.validation import as_grades, as_scores, check_choice, check_positive, is_whole, read_only

GAINS = {"exp2": weights_kernel.EXP2, "linear": weights_kernel.LINEAR}
TIES = {
    "worst": kernel.WORST,
    "stable": kernel.STABLE,
    "reverse": kernel.REVERSE,
    "random": kernel.RANDOM,
    "expected": kernel.EXPECTED,
}
EMPTY = {"skip": kernel.SKIP, "one": kernel.ONE, "zero": kernel.ZERO}


@dataclass(frozen=True, repr=False)
class Measure:
    """What all measures share: the two policies, and how a measure is called, named and compared."""

    name: ClassVar[str]
    kernel_code: ClassVar[int]

    ties: str = field(default="worst", kw_only=True)
    empty: str = field(default="skip", kw_only=True)
    seed: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        check_choice("ties", self.ties, TIES)
        check_choice("empty", self.empty, EMPTY)
        if not is_whole(self.seed) or not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must be a whole number from 0 to 2**63 - 1, got {self.seed!r}")
        object.__setattr__(self, "seed", int(self.seed))
        k = self.cutoff
        if k is not None:
            if not is_whole(k) or not 1 <= k < 2**31:
                raise ValueError(f"k must be a whole number from 1 to 2**31 - 1, or None for all documents, got {k!r}")
            object.__setattr__(self, "k", int(k))

    @property
    def cutoff(self) -> int | None:
        """How many documents from the top count; None if all do."""
        k: int | None = getattr(self, "k", None)
        return k

    def _changed(self) -> dict[str, Any]:
        """The fields that differ from their defaults, the cut-off first."""
        ordered = sorted(fields(self), key=lambda one: one.name != "k")
        return {one.name: value for one in ordered if (value := getattr(self, one.name)) != one.default}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._changed().items())})"

    def __str__(self) -> str:
        options = self._changed()
        k = options.pop("k", None)
        suffix = ",".join(f"{name}={value}" for name, value in options.items())
        return self.name + (f"@{k}" if k else "") + (f":{suffix}" if suffix else "")

    def __call__(self, scores: npt.ArrayLike, relevance: npt.ArrayLike) -> float:
        """The measure of one query; NaN if the query is to be left out.

        >>> NDCG()([3, 2, 1], [0, 1, 0])  # 1 / log2(3)
        0.6309297535714575
        """
        values = as_scores(scores)
        grades = as_grades(relevance, len(values))
        if len(values) == 0:
            raise ValueError("a query must have at least one document, got none")
        self.check_grades(grades)
        return float(self.per_query(values, grades, np.array([0, len(values)]))[0])

    def check_grades(self, relevance: Floats) -> None:
        """Raise if the measure is not defined for these grades."""

    def per_query(self, scores: Floats, relevance: Floats, offsets: Ints, first_round: int = 0) -> Floats:
        """One value per query, for arrays that were checked; NaN where a query is left out.

        Random tie-breaking depends on the seed and the number of the round alone; first_round is the first query's.
        """
        values = np.empty(len(offsets) - 1)
        kernel.measure_pass(
            self.kernel_code,
            self.cutoff or 0,
            GAINS[getattr(self, "gain", "exp2")],
            float(getattr(self, "max_grade", 0)),
            TIES[self.ties],
            EMPTY[self.empty],
            self.seed,
            first_round,
            read_only(scores),
            read_only(relevance),
            read_only(offsets),
            discounts(int(np.diff(offsets).max())),
            values,
        )
        return values


@dataclass(frozen=True, repr=False)
class NDCG(Measure):
    """Normalised discounted cumulative gain of the first k documents, or of all."""

    name: ClassVar[str] = "ndcg"
    kernel_code: ClassVar[int] = weights_kernel.NDCG

    k: int | None = None
    gain: str = field(default="exp2", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("gain", self.gain, GAINS)


@dataclass(frozen=True, repr=False)
class AP(Measure):
    """Average precision; a document is relevant if its grade is positive."""

    name: ClassVar[str] = "ap"
    kernel_code: ClassVar[int] = weights_kernel.AP


@dataclass(frozen=True, repr=False)
class Precision(Measure):
    """Share of relevant documents among the first k; divided by k even where a query has fewer documents."""

    name: ClassVar[str] = "p"
    kernel_code: ClassVar[int] = weights_kernel.PRECISION

    k: int | None = None


@dataclass(frozen=True, repr=False)
class ReciprocalRank(Measure):
    """One over the rank of the first relevant document, if that is among the first k."""

    name: ClassVar[str] = "rr"
    kernel_code: ClassVar[int] = weights_kernel.RECIPROCAL_RANK

    k: int | None = None


@dataclass(frozen=True, repr=False)
class ERR(Measure):
    """Expected reciprocal rank of the document that satisfies a reader going down the first k; grades 0..max_grade."""

    name: ClassVar[str] = "err"
    kernel_code: ClassVar[int] = weights_kernel.ERR

    k: int | None = None
    max_grade: float = field(default=4, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("max_grade", self.max_grade)

    def check_grades(self, relevance: Floats) -> None:
        """Raise if a grade is above max_grade."""
        if (highest := float(relevance.max())) > self.max_grade:
            raise ValueError(
                f"{self} is defined for grades up to max_grade={self.max_grade:g}, got {highest:g}; "
                f"ERR(k={self.k}, max_grade={highest:g}) allows it"
            )


MeasureLike: TypeAlias = str | Measure

_CLASSES: dict[str, type[Measure]] = {
    "ndcg": NDCG,
    "ap": AP,
    "map": AP,
    "p": Precision,
    "precision": Precision,
    "rr": ReciprocalRank,
    "mrr": ReciprocalRank,
    "err": ERR,
}
KNOWN = "ndcg, ndcg@k, ap, p@k, rr, rr@k, err, err@k"


def parse(name: MeasureLike) -> Measure:
    """The measure of a name such as "ndcg@10", "ap" or "ndcg@5:gain=linear,ties=expected".

    >>> parse("ndcg@10")
    NDCG(k=10)
    >>> str(parse("ndcg@5:gain=linear"))
    'ndcg@5:gain=linear'
    """
    return parse_all([name])[0]


def parse_all(names: Iterable[MeasureLike] | MeasureLike) -> list[Measure]:
    """The measures of several names; all that are wrong are reported together."""
    if isinstance(names, (str, Measure)):
        names = [names]
    if not isinstance(names, Iterable):
        raise TypeError(f"measures must be a name, a Measure, or a list of them, got {names!r}")
    measures, errors = [], []
    for name in names:
        try:
            measures.append(_parse_one(name))
        except ValueError as error:
            errors.append(str(error))
    if errors:
        raise ValueError(f"{'; '.join(errors)}. Known measures: {KNOWN}")
    return measures


def _parse_one(name: MeasureLike) -> Measure:
    if isinstance(name, Measure):
        return name
    if not isinstance(name, str):
        raise ValueError(f"a measure must be a name or a Measure, got {name!r}")
    head, _, tail = name.strip().lower().partition(":")
    base, at, cutoff = head.partition("@")
    kind = _CLASSES.get(base)
    if kind is None:
        raise ValueError(f"unknown measure {name!r}")
    known = {one.name: one for one in fields(kind)}
    options: dict[str, Any] = {}
    if at:
        if "k" not in known:
            raise ValueError(f"measure {base!r} takes no cut-off, got {name!r}")
        if not cutoff.isdecimal() or int(cutoff) < 1:
            raise ValueError(f"the cut-off of {name!r} must be a whole number of at least 1")
        options["k"] = int(cutoff)
    for option in tail.split(",") if tail else []:
        key, equals, value = (part.strip() for part in option.partition("="))
        if key not in known or key == "k" or not equals:
            raise ValueError(f"unknown option {option!r} of measure {name!r}")
        default = known[key].default
        try:
            options[key] = value if isinstance(default, str) else _number(value)
        except ValueError:
            raise ValueError(f"option {key!r} of measure {name!r} must be a number, got {value!r}") from None
    return kind(**options)


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


PRESETS: dict[str, dict[str, Any]] = {
    "lightgbm": {"ties": "stable", "empty": "one"},
    "xgboost": {"ties": "stable", "empty": "one"},
    "scikit-learn": {"ties": "expected", "empty": "zero", "gain": "linear"},
    "trec_eval": {"ties": "reverse", "empty": "zero", "gain": "linear"},
    "ir_measures": {"ties": "reverse", "empty": "zero", "gain": "linear"},
}


def preset(tool: str, name: MeasureLike) -> Measure:
    """The measure as another tool computes it.

    ``lightgbm`` and ``xgboost``: gain 2^r - 1, ties in input order, a query without relevant documents counts 1.
    ``scikit-learn``: its ndcg_score, with the grade as gain, the mean over the orders of tied documents, and 0 for a
    query without relevant documents; its average precision treats ties in a way of its own and is not offered.
    ``trec_eval`` and ``ir_measures``: the grade as gain, 0 for a query without relevant documents, and of tied
    documents the one with the larger document number first, which is the later one if documents come in the order of
    their numbers. trec_eval reads scores in single precision: scores that differ by less are tied there and not here.

    >>> preset("scikit-learn", "ndcg@10")
    NDCG(k=10, ties='expected', empty='zero', gain='linear')
    """
    check_choice("tool", tool, PRESETS)
    measure = parse(name)
    if tool == "scikit-learn" and not isinstance(measure, NDCG):
        raise ValueError(f"the scikit-learn preset offers ndcg and ndcg@k only, got {str(measure)!r}")
    options = {one.name: getattr(measure, one.name) for one in fields(measure)}
    options |= {key: value for key, value in PRESETS[tool].items() if key in options}
    return type(measure)(**options)


@cache
def _discount_table(length: int) -> Floats:
    table: Floats = read_only(1.0 / np.log2(np.arange(2, length + 2)))
    return table


def discounts(longest: int) -> Floats:
    """1 / log2(1 + rank) for ranks 1, 2, … at least up to the longest query."""
    return _discount_table(1 << max(10, int(longest).bit_length()))
