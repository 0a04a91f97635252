"""Explanations of models: weights, importance, changes and contributions."""
