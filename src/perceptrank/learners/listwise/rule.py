"""Settings of the listwise perceptron, as its passes take them."""

from typing import TypeAlias

# averaging, learning_rate, margin, relative_margin, binary, cutoff, gain, class_order
ListwiseRule: TypeAlias = tuple[bool, float, float, float, bool, int, int, int]
