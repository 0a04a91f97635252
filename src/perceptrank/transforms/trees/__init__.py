"""Trees: forests as plain values, their scores and leaves as features, and what they are fitted to."""
