"""The report: a page for people, numbers for machines, figures and curves as files."""
