"""Progressive and hold-out evaluation, comparison of learners, plots."""
