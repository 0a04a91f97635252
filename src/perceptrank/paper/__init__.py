"""The paper's experiments, and ours beside them."""
