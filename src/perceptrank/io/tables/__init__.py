"""Read tables of judgements and features: CSV, TSV, JSON lines, logs of search engines, TREC files.

A row is a document of a query. Judgements and features stand in one table, or in two that are joined by query and
document.
"""
