"""Several rankers on the same queries, and whether one may replace the first."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perceptrank.evaluation.decision import Answer, Decision, decide, rule, summary
from perceptrank.evaluation.differences import Difference, Slice, differences, weighted_mean
from perceptrank.evaluation.slices import By, LabelCollector, grouped
from perceptrank.evaluation.trace import Trace
from perceptrank.evaluation.worst import QueryChange, WorstQueries
from perceptrank.io.atomic import write_atomically
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.measures import Measure, MeasureLike, parse
from perceptrank.measures.of_clicks import ClickMeasure
from perceptrank.stream.frames import make_frame
from perceptrank.stream.validation import ParameterError, check_positive_whole


@dataclass(eq=False, repr=False)
class Evaluation:
    """Comparison of several rankers on the same queries; `evaluate` returns it.

    The first ranker is the incumbent, which is live now; the others are challengers. The first measure decides, others
    can only forbid.

    Parameters that several methods take:

    - `measure`: a recorded Measure or its name; by default the first.
    - `model`: name of a ranker.
    - `library`: library of a data frame, "pandas" or "polars", which must be installed.
    - `path`: a file, which is written atomically.
    - `n`: largest number of queries; by default all that `evaluate(worst=…)` kept.

    Parameters
    ----------
    traces : dict of str to Trace
        Values of every measure for every query, by ranker.
    qids : array
        Identifier of each query.
    sizes : array of int
        Number of documents of each query.
    query_weights : array of float or None
        Query weights of all means, if the stream has them.
    margin : float
        Largest acceptable drop of the mean.
    confidence : float
        Confidence level of the intervals.
    policies : dict of str to tuple
        For a measure of clicks, the number of impressions used, and not used, by kind of policy; else empty.
    """

    traces: dict[str, Trace]
    qids: Any
    sizes: Ints
    query_weights: Floats | None
    margin: float
    confidence: float
    policies: dict[str, tuple[int, int]]
    _clusters: Ints | None  # number of each impression's user query
    _worst: dict[tuple[str, Measure], WorstQueries]  # by challenger
    _labels: Any  # slice of each query, or None
    _n_worst: int  # how many queries were kept
    _seed: int

    def __len__(self) -> int:
        return len(self.qids)

    def __repr__(self) -> str:
        return f"Evaluation({len(self.traces)} models, {len(self)} queries: {self.answer})"

    def __str__(self) -> str:
        return self.verdict

    @property
    def measures(self) -> list[Measure]:
        """The measures; the first decides."""
        return next(iter(self.traces.values())).measures

    @property
    def unit(self) -> str:
        """Unit of the values: "queries", or "impressions" if the first measure is one of clicks."""
        return "impressions" if isinstance(self.measures[0], ClickMeasure) else "queries"

    @property
    def incumbent(self) -> str:
        """Name of the first ranker."""
        return next(iter(self.traces))

    @property
    def challengers(self) -> list[str]:
        """Names of the other rankers."""
        return list(self.traces)[1:]

    def mean(self, model: str, measure: MeasureLike | None = None) -> float:
        """Return the mean of a ranker's values, by query weight if there are any."""
        if model not in self.traces:
            raise ParameterError("model", f"must be one of {', '.join(map(repr, self.traces))}", model)
        return weighted_mean(self.traces[model].values(self._measure(measure)), self.query_weights)

    @cached_property
    def differences(self) -> list[Difference]:
        """Difference of each challenger to the incumbent in each measure; their intervals hold all at once."""
        return self._differences(self.measures, [np.ones(len(self), dtype=bool)])[0]

    def _differences(self, measures: Sequence[Measure], parts: Sequence[Any]) -> list[list[Difference]]:
        settings = self.confidence, self._seed, self._clusters
        return differences(self.traces, self.query_weights, measures, parts, *settings)

    @property
    def rule(self) -> str:
        """The rule of the verdict, in words."""
        return rule([str(measure) for measure in self.measures], self.margin, self.confidence)

    @cached_property
    def decisions(self) -> list[Decision]:
        """The decision on each challenger."""
        rows = {name: [row for row in self.differences if row.model == name] for name in self.challengers}
        return [decide(self.incumbent, own, self.margin, self.confidence) for own in rows.values()]

    @cached_property
    def _summary(self) -> tuple[Answer, str]:
        first = str(self.measures[0])
        return summary(self.decisions, [row.new for row in self.differences if row.measure == first])

    @property
    def answer(self) -> Answer:
        """May a challenger go live: "yes" if one may, "no" if none may, else "undecided"."""
        return self._summary[0]

    @property
    def may_go_live(self) -> bool:
        """True if a challenger may replace the incumbent."""
        return self.answer == "yes"

    @property
    def verdict(self) -> str:
        """The answer in words: a sentence on each challenger."""
        return self._summary[1]

    @cached_property
    def slices(self) -> list[Slice]:
        """Differences in the first measure by slices of the queries, as `by` says; empty if nothing was said."""
        return [] if self._labels is None else self._sliced(self._labels, self.measures[0])

    def sliced(self, by: By, measure: MeasureLike | None = None) -> list[Slice]:
        """Return differences by slices of the queries, the largest slice first.

        The intervals of all slices and challengers hold at once; a slice with fewer than 30 queries has none.

        Parameters
        ----------
        by : array, mapping, or "length"
            One label per query, or a mapping from query ids to labels; numbers of more than ten different values are
            grouped by quarters. "length" stands for the number of documents.
        """
        chosen = self._measure(measure)
        if isinstance(by, str) and by == "length":
            return self._sliced(self.sizes, chosen)
        if isinstance(by, str):
            raise ParameterError("by", "must be labels or 'length': features are not kept, give them to evaluate", by)
        collected = LabelCollector(by)
        if isinstance(by, Mapping):
            collected.take(self.qids)
        return self._sliced(collected.labels(len(self)), chosen)

    def _sliced(self, labels: npt.NDArray[Any], measure: Measure) -> list[Slice]:
        groups = grouped(labels)
        rows = self._differences([measure], [part for _, part in groups])
        return [Slice(label, int(part.sum()), tuple(own)) for (label, part), own in zip(groups, rows, strict=True)]

    def worst(
        self, n: int | None = None, *, model: str | None = None, measure: MeasureLike | None = None
    ) -> list[QueryChange]:
        """Return the queries that a challenger, by default the first, ranks worse than the incumbent, worst first."""
        if n is not None and check_positive_whole("n", n) > self._n_worst:
            raise ParameterError("n", f"must be at most {self._n_worst}; call evaluate with worst={n} to keep more", n)
        name = self.challengers[0] if model is None else model
        if name not in self.challengers:
            raise ParameterError("model", f"must be one of {', '.join(map(repr, self.challengers))}", model)
        return self._worst[name, self._measure(measure)].changes[:n]

    def _measure(self, measure: MeasureLike | None) -> Measure:
        chosen = self.measures[0] if measure is None else parse(measure)
        self.traces[self.incumbent].values(chosen)  # which raises if it was not recorded
        return chosen

    def to_frame(self, library: str = "pandas") -> Any:
        """Convert to a data frame with one row per query.

        The columns are `qid`, `documents`, and for each measure and ranker one called "measure, ranker".
        """
        columns: dict[str, Any] = {"qid": self.qids, "documents": self.sizes}
        for measure in self.measures:
            columns |= {f"{measure}, {name}": trace.values(measure) for name, trace in self.traces.items()}
        return make_frame(columns, library)

    def as_plain(self) -> dict[str, Any]:
        """Return everything but the values of single queries as dicts, lists, text and numbers."""
        means = [{"model": name} | {str(key): self.mean(name, key) for key in self.measures} for name in self.traces]
        return {
            "answer": self.answer,
            "verdict": self.verdict,
            "rule": self.rule,
            "queries": len(self),
            "incumbent": self.incumbent,
            "margin": self.margin,
            "confidence": self.confidence,
            "policies": {name: dict(zip(("used", "unused"), n, strict=True)) for name, n in self.policies.items()},
            "models": means,
            "decisions": [decision._asdict() for decision in self.decisions],
            "differences": [row._asdict() for row in self.differences],
            "slices": [
                {
                    "label": part.label,
                    "queries": part.n_queries,
                    "small": part.is_small,
                    "differences": [row._asdict() for row in part.differences],
                }
                for part in self.slices
            ],
            "worst": {
                name: [
                    change._asdict() | {"documents": [document._asdict() for document in change.documents]}
                    for change in self.worst(model=name)
                ]
                for name in self.challengers
                if self._n_worst
            },
        }

    def save_latex(self, path: str | os.PathLike[str]) -> None:
        """Write means and differences as a table for LaTeX's package booktabs."""
        from perceptrank.evaluation.comparison_tables import decision_table

        write_atomically(Path(path), decision_table(self))

    def _repr_html_(self) -> str:
        from perceptrank.evaluation.decision_page import summary_html

        return summary_html(self)

    def save_page(self, path: str | os.PathLike[str], *, title: str = "May it go live?", by: str = "") -> None:
        """Write everything as one HTML page that opens from disk and loads nothing.

        Parameters
        ----------
        title, by : str
            Title of the page, and what slices are by.
        """
        from perceptrank.evaluation.decision_page import decision_page

        write_atomically(Path(path), decision_page(self, title, by))
