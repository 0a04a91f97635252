"""Standard streams, tables, progress and errors, as users see them."""
