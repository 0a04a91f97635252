"""Transforms of features, query by query: one file per kind, its kernel beside it.

`QueryZScore` and `QueryMinMax` depend on the query alone. `RunningStandardizer` learns from all documents seen so far.
A learner takes any of them, or a list, as its `scaling`.
"""
