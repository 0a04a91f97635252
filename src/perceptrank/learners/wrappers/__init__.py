"""Learners that are made of other learners."""
