"""Judged queries in memory: streams, blocks, data frames, and validation of user input."""
