"""Ranking measures as values, with names, and presets by the conventions of other tools."""

from perceptrank.measures.ap import AP
from perceptrank.measures.err import ERR
from perceptrank.measures.measure import Measure, MeasureLike
from perceptrank.measures.ndcg import NDCG
from perceptrank.measures.parsing import parse, parse_all, preset
from perceptrank.measures.precision import Precision
from perceptrank.measures.reciprocal_rank import ReciprocalRank

__all__ = [
    "AP",
    "ERR",
    "NDCG",
    "Measure",
    "MeasureLike",
    "Precision",
    "ReciprocalRank",
    "parse",
    "parse_all",
    "preset",
]
