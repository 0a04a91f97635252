"""Trees: ensembles of them as plain values, their scores and leaves as features, and the memory that they are fitted to."""
