"""Algorithm 2 and the listwise perceptron as one would write them in plain, vectorised NumPy."""

from itertools import pairwise

import numpy as np


class NumpySlam:
    """Algorithm 2 for NDCG@k, recording NDCG@k."""

    def __init__(self, n_features: int, k: int = 10, learning_rate: float = 0.1, margin: float = 1.0) -> None:
        self.weights = np.zeros(n_features)
        self.k, self.learning_rate, self.margin = k, learning_rate, margin
        self.discounts = 1 / np.log2(np.arange(2, k + 2))

    def learn_one(self, X: np.ndarray, relevance: np.ndarray) -> float:
        """One round; returns the NDCG@k of the prediction."""
        scores = X @ self.weights
        ranked = relevance[np.lexsort((relevance, -scores))[: self.k]]
        ideal = np.lexsort((-scores, -relevance))[: self.k]
        best = relevance[ideal]
        v = (np.exp2(best) - 1) * self.discounts[: len(best)]
        total = v.sum()
        if total == 0:
            return np.nan
        ndcg = (np.exp2(ranked) - 1) @ self.discounts[: len(ranked)] / total
        if not np.array_equal(ranked, best):
            g = np.zeros(len(scores))
            for grade in np.unique(best):
                lower = np.where(relevance < grade, scores, -np.inf)
                rival = lower.argmax()
                level = ideal[best == grade]
                active = level[self.margin + lower[rival] - scores[level] > 0]
                moved = v[best == grade][self.margin + lower[rival] - scores[level] > 0] / total
                g[active] -= moved
                g[rival] += moved.sum()
            self.weights -= self.learning_rate * (g @ X)
        return float(ndcg)


class NumpyListwise:
    """The listwise perceptron (NDCG, violators by places, relative margin 1, averaged), recording NDCG@10."""

    def __init__(self, n_features: int, k: int = 10) -> None:
        self.weights = np.zeros(n_features)
        self.total = np.zeros(n_features)
        self.rounds, self.updates, self.reach = 0, 0, 0.0
        self.k = k
        self.discounts = 1 / np.log2(np.arange(2, 5000))
        self.logs = np.log(np.arange(1, 5000))

    def learn_one(self, X: np.ndarray, relevance: np.ndarray) -> float:
        """One round; returns the NDCG@10 of the averaged prediction."""
        scores = X @ self.weights
        predicted = X @ (self.total / max(self.rounds, 1))
        gains = np.exp2(relevance) - 1
        ranked = gains[np.lexsort((relevance, -predicted))[: self.k]]
        ideal = np.lexsort((-scores, -relevance))
        v = np.empty(len(scores))
        v[ideal] = gains[ideal] * self.discounts[: len(scores)]
        best = np.sort(gains)[::-1][: self.k] @ self.discounts[: len(ranked)]
        ndcg = ranked @ self.discounts[: len(ranked)] / best if best > 0 else np.nan
        if best > 0:
            v /= v.sum()
            margin = self.reach / self.updates if self.updates else 0.0
            distinct, levels = np.unique(relevance, return_inverse=True)
            order = np.lexsort((relevance, margin * levels - scores))
            graded = relevance[order]
            mass = v[order][graded > np.minimum.accumulate(graded)].sum()
            if mass > 0:
                up, total = np.zeros(len(scores)), 0.0
                logs = self.logs[: len(scores)]
                for lower, grade in pairwise(distinct):
                    high = graded >= grade
                    n = np.count_nonzero(high)
                    moved = logs.copy()
                    moved[high] -= logs[:n]
                    moved[~high] -= logs[n:]
                    moved *= np.exp2(grade) - np.exp2(lower)
                    total += moved[high].sum()
                    up[order] += moved
                step = (up * (mass / total)) @ X
                self.reach += step @ step / mass**2
                self.updates += 1
                self.weights += step
        self.rounds += 1
        self.total += self.weights
        return float(ndcg)
