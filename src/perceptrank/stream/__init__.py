"""Judged queries as arrays, and validation of user input."""
