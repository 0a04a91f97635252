"""Engines that a model can be exported to: a file for each."""
