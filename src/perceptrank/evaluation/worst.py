"""The queries that lost most, and where their documents went."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.measures import Measure
from perceptrank.measures.of_clicks import ClickMeasure
from perceptrank.measures.ranking import draw_ties
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import read_only

_PLACES = 10
Pair: TypeAlias = tuple[Floats, Floats]  # by the incumbent and by the challenger


class MovedDocument(NamedTuple):
    """A document that is among the first by one ranking or the other.

    Attributes
    ----------
    docid : str or None
        Its identifier, if the stream has them.
    row, old_place, new_place : int
        Its row in the stream, from 0, and its places by the incumbent and by the challenger, from 1.
    grade : float
        Its grade; for a measure of clicks, its click.
    """

    docid: str | None
    row: int
    grade: float
    old_place: int
    new_place: int


class QueryChange(NamedTuple):
    """Change of one query from the incumbent to a challenger.

    Attributes
    ----------
    qid : hashable
    number : int
        Number of the query in the stream, from 0.
    old, new, difference : float
        The measure by the incumbent and by the challenger, and the latter minus the former.
    documents : tuple of MovedDocument
        Documents among the first places by either, as many as the measure counts and at most ten, in the order of the
        incumbent.
    """

    qid: Any
    number: int
    old: float
    new: float
    difference: float
    documents: tuple[MovedDocument, ...]


class WorstQueries:
    """Keep the n queries that lose most while they pass by, and the documents of these alone."""

    def __init__(self, n: int, measure: Measure) -> None:
        self._n, self._measure = n, measure
        self.changes: list[QueryChange] = []  # the largest loss first, of equal ones the earliest query

    def add(self, block: QueryStream, first: tuple[int, int], values: Pair, scores: Pair) -> None:
        """Take a block, with the numbers of its first query and row, and both rankers' values and scores."""
        losses = values[1] - values[0]
        if block.query_weights is not None:
            losses = np.where(block.query_weights > 0, losses, 0.0)  # a query of weight 0 does not count
        bar = self.changes[-1].difference if len(self.changes) == self._n else 0.0
        below = np.flatnonzero(losses < bar)
        for q in below[np.argsort(losses[below], kind="stable")][: self._n].tolist():
            self.changes.append(self._change(block, q, first, values, scores))
        self.changes.sort(key=lambda change: (change.difference, change.number))
        del self.changes[self._n :]

    def _change(self, block: QueryStream, q: int, first: tuple[int, int], values: Pair, scores: Pair) -> QueryChange:
        rows = slice(int(block.offsets[q]), int(block.offsets[q + 1]))
        clicked = block.clicked if isinstance(self._measure, ClickMeasure) else None
        grades = (block.relevance if clicked is None else clicked)[rows]
        number = first[0] + q
        old_places, new_places = (places(self._measure, own[rows], grades, number) for own in scores)
        n_shown = min(_PLACES, self._measure.cutoff or _PLACES)
        shown = np.flatnonzero(np.minimum(old_places, new_places) <= n_shown)
        docids = [""] * len(grades) if block.docids is None else block.docids[rows].tolist()
        row, order = first[1] + rows.start, shown[np.argsort(old_places[shown])].tolist()
        documents = tuple(
            MovedDocument(docids[i] or None, row + i, float(grades[i]), int(old_places[i]), int(new_places[i]))
            for i in order
        )
        old, new = float(values[0][q]), float(values[1][q])
        return QueryChange(block[q].qid, number, old, new, new - old, documents)


def places(measure: Measure, scores: Floats, grades: Floats, round_number: int) -> Ints:
    """Return the place of each document, from 1, with ties as the measure has them; by input if it takes their mean."""
    m = len(scores)
    numbers = np.arange(m)
    ties: npt.NDArray[Any] = numbers
    if measure.ties == "worst":
        ties = grades
    elif measure.ties == "reverse":
        ties = -numbers
    elif measure.ties == "random":
        ties = np.empty(m)
        draw_ties(measure.seed, round_number, read_only(np.array([0, m])), ties)
        ties = -ties
    result = np.empty(m, dtype=np.int64)
    result[np.lexsort((numbers, ties, -scores))] = np.arange(1, m + 1)
    return result
