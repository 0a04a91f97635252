"""Simulated users: which documents of a list they examine, and which they click."""
