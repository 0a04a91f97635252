"""Compiled loops over arrays. Nothing here checks its input: whoever calls a kernel has done that."""
