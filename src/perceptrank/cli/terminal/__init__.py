"""What users see: standard streams, tables, progress, errors."""
