"""Public data sets and simulated streams."""
