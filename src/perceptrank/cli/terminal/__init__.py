"""The terminal: standard streams, tables, progress, errors."""
