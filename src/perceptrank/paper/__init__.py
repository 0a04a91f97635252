"""Reproduction of the paper's experiments, with the listwise perceptron added."""
