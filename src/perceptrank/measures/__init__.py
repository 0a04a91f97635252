"""Ranking measures as values, with names, and presets by the conventions of other tools."""

from perceptrank.measures.binary import AP, Precision, ReciprocalRank
from perceptrank.measures.err import ERR
from perceptrank.measures.measure import Measure, MeasureLike
from perceptrank.measures.ndcg import NDCG
from perceptrank.measures.parsing import parse, parse_all, preset

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
