"""Random features of all features at once."""
