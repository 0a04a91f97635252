"""Slow twins of click learners: the definitions, in plain NumPy and plain loops, and probabilities of lists."""

from itertools import permutations, product

import numpy as np

from support import twins


def plackett_luce_chance(scores, order):
    """Probability that Plackett-Luce shows this list, by scores of all documents."""
    left, chance = list(range(len(scores))), 1.0
    for i in order:
        chance *= 1 / sum(np.exp(scores[j] - scores[i]) for j in left)
        left.remove(i)
    return chance


def fair_pairs_chance(ranking, order, first, swap):
    """Probability that fair pairs that start at this place show this list."""
    chance, p = 1.0, first - 1
    expected = [*ranking[: len(order)]]
    fixed = set(range(len(order)))
    while p + 1 < len(order):
        fixed -= {p, p + 1}
        pair = list(order[p : p + 2])
        if pair == expected[p : p + 2]:
            chance *= 1 - swap
        elif pair == expected[p : p + 2][::-1]:
            chance *= swap
        else:
            return 0.0
        p += 2
    return chance if all(order[p] == expected[p] for p in fixed) else 0.0


def shuffle_chance(ranking, order, k):
    """Probability that shuffling the best k shows this list."""
    n = len(order)
    lists = [(*head, *ranking[k:])[:n] for head in permutations(ranking[:k])]
    return sum(each == tuple(order) for each in lists) / len(lists)


def uniform_chance(ranking, prefix, share):
    """Probability that a list of the uniform policy begins like this."""
    m = len(ranking)
    is_ranking = tuple(prefix) == tuple(ranking[: len(prefix)])
    return (1 - share) * is_ranking + share * np.prod([1 / (m - p) for p in range(len(prefix))])


def exchanged(order, p, r):
    """The list with the documents at two places exchanged."""
    order = list(order)
    order[p], order[r] = order[r], order[p]
    return order


def coin_pairs(shown):
    """Indices of the upper documents of pairs that fair pairs might have swapped, with the chance of their order."""
    if not shown["policy"].startswith("fair-pairs:"):
        return []
    first = int(shown["policy"][-1])
    return [
        (p, shown["chances"][p])
        for p in range(len(shown["order"]) - 1)
        if shown["places"][p + 1] == shown["places"][p] + 1
        and (shown["places"][p] - first) % 2 == 0
        and shown["places"][p] >= first
        and shown["chances"][p] < 1
    ]


class TwinClicks:
    """A click learner by its definition.

    A list is a dict: X, order (rows by place), places, clicks, examined, chances, policy, weight.
    """

    def __init__(self, name, n_features, **options):
        self.rule, self.options = getattr(self, name), options
        self.weights, self.total, self.round_weight = np.zeros(n_features), np.zeros(n_features), 0.0
        self.rounds = self.updates = 0
        self.reaches, self.masses, self.update_weights = [], [], []
        self.evidence = 0.0
        self.radius = np.inf

    def learn(self, shown):
        """Learn a list; return the step before the weight of the list, and the mass."""
        if shown["weight"] == 0:
            return np.zeros_like(self.weights), 0.0
        step, mass = np.zeros_like(self.weights), 0.0
        if len(shown["order"]) > 0:
            step, mass = self.rule(shown["X"] @ self.weights, shown)
        if mass > 0:
            self.weights = self.weights + shown["weight"] * step
            self.updates += 1
            self.reaches.append(shown["weight"] * (step @ step) / mass**2)
            self.update_weights.append(shown["weight"])
            self.masses.append(mass)
        norm = np.linalg.norm(self.weights)
        if norm > self.radius:
            self.weights = self.weights * self.radius / norm
        self.rounds += 1
        self.total = self.total + shown["weight"] * self.weights
        self.round_weight += shown["weight"]
        return step, mass

    def growing_margin(self):
        return self.options.get("relative_margin", 1.0) * max(self.reaches, default=0.0) * np.sqrt(1 + self.evidence)

    def pdgd(self, scores, shown):
        X, order, clicks = shown["X"], shown["order"], shown["clicks"]
        step, mass = np.zeros_like(self.weights), 0.0
        clicked = [p for p in range(len(order)) if clicks[p] > 0]
        considered = range(min(max(clicked) + 2, len(order))) if clicked else range(0)
        rate = self.options["learning_rate"] * self.options["decay"] ** self.updates
        for a in considered:
            for b in considered:
                if clicks[a] > clicks[b]:
                    k, other = order[a], order[b]
                    own = plackett_luce_chance(scores, order)
                    swapped = plackett_luce_chance(scores, exchanged(order, a, b))
                    both = np.exp(scores[k]) + np.exp(scores[other])
                    slope = np.exp(scores[k]) * np.exp(scores[other]) / both**2
                    weight = (clicks[a] - clicks[b]) * swapped / (own + swapped) * slope
                    step += rate * weight * (X[k] - X[other])
                    mass += weight
        return step, mass

    def perturbed(self, scores, shown):
        X, order, clicks, places = shown["X"], shown["order"], shown["clicks"], shown["places"]
        step, mass = np.zeros_like(self.weights), 0.0
        for p, _ in coin_pairs(shown):
            weight = max(clicks[p + 1] - clicks[p], 0) * (1 / np.log2(places[p] + 1) - 1 / np.log2(places[p] + 2))
            step += weight * (X[order[p + 1]] - X[order[p]])
            mass += weight
        return step, mass

    def fair_pairs(self, scores, shown):
        X, order, clicks = shown["X"], shown["order"], shown["clicks"]
        margin, logistic = self.growing_margin(), self.options.get("logistic", False)
        shares = np.cumsum(1 / np.log2(1 + np.arange(1, len(order))))
        step, mass = np.zeros_like(self.weights), 0.0
        for p, chance in coin_pairs(shown):
            y = clicks[p] - clicks[p + 1]
            if y == 0 or (logistic and y > 0):
                continue
            d = np.sign(y) * (X[order[p]] - X[order[p + 1]])
            lead = np.sign(y) * (scores[order[p]] - scores[order[p + 1]])
            weight = shares[p] / shares.sum() * abs(y) / (2 * chance)
            self.evidence += weight
            if logistic:
                weight *= 1 / (1 + np.exp(lead / margin)) if margin else (0.5 if lead == 0 else float(lead < 0))
            elif not (lead < margin or lead <= 0):
                weight = 0.0
            step += weight * d
            mass += weight
        return step, mass

    def top_feedback(self, scores, shown):
        X, order, clicks, k = shown["X"], shown["order"], shown["clicks"], self.options["k"]
        self.radius = self.options["radius"]
        m, rate = len(X), self.options["learning_rate"] * (self.rounds + 1) ** (-2 / 3)
        nothing = np.zeros_like(self.weights), 0.0
        if shown["policy"].partition(":")[0] not in ("uniform", "plackett-luce"):
            return nothing
        if list(shown["places"][:k]) != list(range(1, k + 1)):
            return nothing
        chance = np.prod(shown["chances"][:k])
        if k == 1:
            estimate = np.zeros(m)
            estimate[order[0]] = clicks[0] / chance
            coefficients = rate * 2 / m * (scores - estimate)
            return -coefficients @ X, np.abs(coefficients).sum()
        i, j = (0, 1) if clicks[0] > clicks[1] else (1, 0)
        if clicks[0] == clicks[1] or scores[order[i]] - scores[order[j]] >= 1:
            return nothing
        n_pairs = m * (m - 1) / 2
        weight = rate * (clicks[i] - clicks[j]) / n_pairs / (2 * chance)
        return weight * (X[order[i]] - X[order[j]]), weight

    def ips(self, scores, shown):
        X, order, clicks, places = shown["X"], shown["order"], shown["clicks"], shown["places"]
        examination, trust = self.options["examination"], self.options.get("trust", [0.0])
        clip, margin, m = self.options["clip"], self.growing_margin(), len(X)
        step, mass, seen = np.zeros_like(self.weights), 0.0, 0.0
        for p, i in enumerate(order):
            theta = examination[min(places[p], len(examination)) - 1]
            beta = trust[min(places[p], len(trust)) - 1]
            weight = np.clip((clicks[p] - beta) / theta, -clip, clip)
            seen += abs(weight)
            for j in set(range(m)) - {i}:
                if scores[i] - scores[j] < margin or scores[i] <= scores[j]:
                    step += weight / (m - 1) * (X[i] - X[j])
                    mass += abs(weight) / (m - 1)
        self.evidence += seen**2
        return step, mass

    def examined(self, scores, shown):
        clicks, examined = np.asarray(shown["clicks"]), shown["examined"]
        last = max((p for p in range(len(clicks)) if clicks[p] > 0), default=-1)
        used = [
            p for p in range(len(clicks)) if clicks[p] > 0 or examined[p] == 1 or (np.isnan(examined[p]) and p <= last)
        ]
        X, scores, grades = shown["X"][shown["order"][used]], scores[shown["order"][used]], clicks[used]
        v = twins.slam_weights(scores, grades, gain="linear")
        total = sum(self.update_weights)
        margin = self.options.get("relative_margin", 1.0) * np.dot(self.update_weights, self.reaches) / (total or 1)
        step, mass = np.zeros_like(self.weights), 0.0
        for i in range(len(used)):
            violators = [
                j
                for j in range(len(used))
                if grades[j] < grades[i] and (scores[j] > scores[i] - margin or scores[j] >= scores[i])
            ]
            if violators and v[i] > 0:
                step += v[i] * (X[i] - X[violators].mean(axis=0))
                mass += v[i]
        return step, mass


def outcomes(chances):
    """Every pattern of independent events with these probabilities, and its probability."""
    for pattern in product((0, 1), repeat=len(chances)):
        hit = np.array(pattern, bool)
        yield hit, np.prod(np.where(hit, chances, 1 - np.asarray(chances)))
