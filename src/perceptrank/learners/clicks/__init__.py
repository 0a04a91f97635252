"""Learners that learn from clicks: they show lists, and learn from what users clicked in them."""
