"""Logarithms of features of any sign."""

from __future__ import annotations

import math

from perceptrank.kernels.arrays import Features, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.stream.validation import read_only
from perceptrank.transforms.transform import ElementwiseTransform


class SignedLog(ElementwiseTransform):
    """Replace each feature x by sign(x) log(1 + |x|), for counts and others that are spread over orders of magnitude.

    Examples
    --------
    >>> import perceptrank as pr
    >>> SignedLog().transform(pr.QueryStream.from_arrays([[0.0, 1e6], [-9.0, 1.0]], [0, 1])).X.round(2)
    array([[ 0.  , 13.82],
           [-2.3 ,  0.69]])
    """

    name = "signed-log"
    rises = True

    def write(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        """Write the logarithms into columns of an array, from column `first` on."""
        signed_log_pass(read_only(X), outputs, first)


@compiled
def signed_log_pass(X: Features, outputs: Features, first: int) -> None:
    """Write sign(x) log(1 + |x|) for every feature x."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            x = float(X[i, j])
            outputs[i, first + j] = math.copysign(math.log1p(abs(x)), x)
