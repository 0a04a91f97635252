"""The listwise perceptron: its class, and a compiled pass for each way to weight violators."""

from perceptrank.learners.listwise.perceptron import ListwisePerceptron

__all__ = ["ListwisePerceptron"]
