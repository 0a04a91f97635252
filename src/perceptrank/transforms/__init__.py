"""Transforms of features, query by query."""
