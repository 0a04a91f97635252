"""Compiled loops over arrays. Nothing here checks shapes or indices: whoever calls a kernel has done that."""
