"""Replicas, which follow the log of a primary and rank: on other machines, on this one, and as its workers."""
