"""The paper's experiments and ours beside them: one file per figure or table."""
