"""Clicks: simulated users, exploration policies, position bias, and judgements from clicks."""
