"""Traces, hold-out evaluation, comparisons and plots of rankers."""
