"""Algorithms that others published, a file each."""
