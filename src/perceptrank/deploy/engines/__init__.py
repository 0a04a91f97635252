"""What a model can be exported to: a file for each engine."""
