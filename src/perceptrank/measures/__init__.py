"""Ranking measures as values, their presets, and the kernels that compute them."""

from perceptrank.measures.measure import AP, ERR, NDCG, Measure, Precision, ReciprocalRank, parse, preset

__all__ = ["AP", "ERR", "NDCG", "Measure", "Precision", "ReciprocalRank", "parse", "preset"]
