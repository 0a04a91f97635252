"""Position bias: how often users look at each place, relative to the first."""
