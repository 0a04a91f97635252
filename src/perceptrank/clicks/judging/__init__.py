"""Judgements from clicks: sums of a log, models of clicks, intervals, and files of judgements."""
