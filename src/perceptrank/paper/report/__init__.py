"""The report: one page, and the files beside it."""
