"""The report of a reproduction: page, figures, numbers."""
