"""The log of a ranker: entries linked by checksums, in SQLite or PostgreSQL."""
