"""The assignment problem: who takes which place so that a sum is largest."""

import math

import numpy as np

from perceptrank.kernels.arrays import FloatRows, Ints
from perceptrank.kernels.compiled import compiled


@compiled
def best_assignment(values: FloatRows, place_of: Ints) -> float:
    """Row i of a square matrix takes the column place_of[i]; the sum of what they take is the largest possible.

    The Hungarian method by shortest augmenting paths, in time cubic in the number of rows. Reference: R. Jonker and
    A. Volgenant, "A Shortest Augmenting Path Algorithm for Dense and Sparse Linear Assignment Problems".
    """
    n = len(values)
    row_price, column_price, distance = np.zeros(n + 1), np.zeros(n + 1), np.empty(n + 1)
    taken_by, before, done = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64), np.zeros(n + 1, np.bool_)
    for i in range(1, n + 1):  # rows and columns count from 1; column 0 is where the new row starts
        taken_by[0] = i
        column = 0
        for j in range(n + 1):
            distance[j], done[j] = math.inf, False
        while taken_by[column] != 0:
            done[column] = True
            row, shortest, following = taken_by[column], math.inf, 0
            for j in range(1, n + 1):
                if not done[j]:
                    length = -values[row - 1, j - 1] - row_price[row] - column_price[j]
                    if length < distance[j]:
                        distance[j], before[j] = length, column
                    if distance[j] < shortest:
                        shortest, following = distance[j], j
            for j in range(n + 1):
                if done[j]:
                    row_price[taken_by[j]] += shortest
                    column_price[j] -= shortest
                else:
                    distance[j] -= shortest
            column = following
        while column != 0:
            taken_by[column] = taken_by[before[column]]
            column = before[column]
    total = 0.0
    for j in range(1, n + 1):
        place_of[taken_by[j] - 1] = j - 1
        total += values[taken_by[j] - 1, j - 1]
    return total
