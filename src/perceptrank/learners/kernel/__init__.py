"""Kernel perceptrons on a memory budget: class, rules, values of kernels, and what goes when memory is full."""

from perceptrank.learners.kernel.perceptron import KernelPerceptron

__all__ = ["KernelPerceptron"]
