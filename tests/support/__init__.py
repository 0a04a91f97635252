"""Slow twins, Hypothesis strategies and comparisons that several test files use."""
