"""Transforms that work on LANES columns at once."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from perceptrank.kernels.arrays import Features, Ints
from perceptrank.kernels.lanes import LANES
from perceptrank.transforms.transform import WritingTransform


class ColumnTransform(WritingTransform):
    """A transform of each column by itself, whose kernel needs at least LANES columns."""

    def write(self, X: Features, offsets: Ints, outputs: Features, first: int, *, learning: bool) -> None:
        """Write the transformed features into columns of an array, from column `first` on."""
        n_features = X.shape[1]
        if n_features >= LANES:
            self.write_columns(X, offsets, outputs, first)
            return
        wider: Features = np.zeros((len(X), LANES), X.dtype)
        wider[:, :n_features] = X
        made = np.empty_like(wider)
        self.write_columns(wider, offsets, made, 0)
        outputs[:, first : first + n_features] = made[:, :n_features]

    @abstractmethod
    def write_columns(self, X: Features, offsets: Ints, outputs: Features, first: int) -> None:
        """Write the outputs of at least LANES columns into columns of an array.

        Parameters
        ----------
        X : array of shape (documents, features)
        offsets : array of int of shape (queries + 1,)
        outputs : array of shape (documents, columns)
            Written to.
        first : int
            The first column to write to.
        """
