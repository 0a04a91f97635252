"""The listwise perceptron: its class, and a compiled pass for each way to weight violators."""
