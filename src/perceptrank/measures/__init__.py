"""Ranking measures as values, with names, and presets by the conventions of other tools."""

from perceptrank.measures.kinds import AP, ERR, NDCG, Precision, ReciprocalRank
from perceptrank.measures.measure import Measure, MeasureLike
from perceptrank.measures.parsing import parse, parse_all, preset

__all__ = ["AP", "ERR", "NDCG", "Measure", "MeasureLike", "Precision", "ReciprocalRank", "parse", "parse_all", "preset"]
