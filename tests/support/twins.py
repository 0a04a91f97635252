"""Slow twins: the definitions, in plain NumPy and plain loops, as oracles for the kernels."""

import itertools

import numpy as np


def gains(grades, gain="exp2"):
    grades = np.asarray(grades, dtype=float)
    return 2.0**grades - 1 if gain == "exp2" else grades


def ranked_by(scores, grades, ties):
    """Document numbers, best first, under a deterministic tie policy."""
    documents = range(len(scores))
    if ties == "worst":
        return sorted(documents, key=lambda i: (-scores[i], grades[i], i))
    if ties == "stable":
        return sorted(documents, key=lambda i: (-scores[i], i))
    if ties == "reverse":
        return sorted(documents, key=lambda i: (-scores[i], -i))
    raise ValueError(ties)


def measure_of_ranking(name, ranked, k=None, gain="exp2", max_grade=4):
    """A measure of grades in ranked order, for a query with a relevant document."""
    ranked = np.asarray(ranked, dtype=float)
    m = len(ranked)
    cut = m if k is None else min(k, m)
    positions = np.arange(1, m + 1)
    if name == "ndcg":
        discounts = 1 / np.log2(1 + positions[:cut])
        return (gains(ranked, gain)[:cut] @ discounts) / (gains(np.sort(ranked)[::-1], gain)[:cut] @ discounts)
    relevant = ranked > 0
    if name == "ap":
        return np.mean([relevant[: i + 1].mean() for i in range(m) if relevant[i]])
    if name == "p":
        return relevant[:cut].sum() / (k or m)
    if name == "rr":
        first = int(np.argmax(relevant))
        return 1 / (first + 1) if first < cut else 0.0
    if name == "err":
        stop = (2.0**ranked - 1) / 2.0**max_grade
        return sum(stop[i] / (i + 1) * np.prod(1 - stop[:i]) for i in range(cut))
    raise ValueError(name)


def measure(name, scores, grades, ties="worst", **options):
    """A measure of scores; "expected" averages over every order of tied documents."""
    grades = np.asarray(grades, dtype=float)
    if ties != "expected":
        return measure_of_ranking(name, grades[ranked_by(scores, grades, ties)], **options)
    groups = [[i for i in range(len(scores)) if scores[i] == s] for s in sorted(set(scores), reverse=True)]
    orders = itertools.product(*(itertools.permutations(group) for group in groups))
    return np.mean([measure_of_ranking(name, grades[list(itertools.chain(*order))], **options) for order in orders])


def judged(grades, name):
    """Grades as a measure sees them."""
    grades = np.asarray(grades, dtype=float)
    return (grades > 0).astype(float) if name == "ap" else grades


def slam_weights(scores, grades, name="ndcg", k=None, gain="exp2", class_order="score"):
    """One weight per document."""
    grades = judged(grades, name)
    m = len(grades)
    v = np.zeros(m)
    if not (grades > 0).any():
        return v
    if name == "ap":
        return (grades > 0) / (grades > 0).sum()
    inside = (lambda i: (-scores[i], i)) if class_order != "index" else (lambda i: i)
    order = sorted(range(m), key=lambda i: (-grades[i], inside(i)))
    cut = m if k is None else min(k, m)
    for p, i in enumerate(order[:cut]):
        v[i] = gains(grades[i], gain) / np.log2(2 + p)
    v /= v.sum()
    if class_order == "mean":
        for grade in set(grades):
            v[grades == grade] = v[grades == grade].mean()
    return v


def best_below(scores, grades, i):
    """(M_i, K_i), or (-inf, None)."""
    lower = [j for j in range(len(grades)) if grades[j] < grades[i]]
    if not lower:
        return -np.inf, None
    top = max(scores[j] for j in lower)
    return top, min(j for j in lower if scores[j] == top)


def slam(scores, grades, v, margin):
    """Value and subgradient of SLAM, for grades as the measure sees them."""
    value, gradient = 0.0, np.zeros(len(scores))
    for i in range(len(scores)):
        top, rival = best_below(scores, grades, i)
        if rival is not None and top > scores[i] - margin:
            value += v[i] * (margin + top - scores[i])
            gradient[i] -= v[i]
            gradient[rival] += v[i]
    return value, gradient


def widest_pair(scores, grades):
    """(gap, i, j) of the first pair R_i > R_j with the largest s_j - s_i, or None."""
    pairs = [
        (scores[j] - scores[i], -i, -j) for i in range(len(scores)) for j in range(len(scores)) if grades[i] > grades[j]
    ]
    if not pairs:
        return None
    gap, i, j = max(pairs)
    return gap, -i, -j


def softmax(values):
    values = np.asarray(values, dtype=float)
    exponents = np.exp(values - values.max())
    return exponents / exponents.sum()


def is_mistake(scores, grades, name, k):
    """RML != 0, decided by the ranked grades."""
    grades = judged(grades, name)
    cut = len(grades) if k is None else min(k, len(grades))
    ranked = grades[ranked_by(scores, grades, "worst")]
    return not np.array_equal(ranked[:cut], np.sort(grades)[::-1][:cut])


def levels(grades):
    """For each document, the number of lower grades in its query."""
    return np.unique(grades, return_inverse=True)[1]


def level_pair(scores, grades):
    """The largest (l_i - l_j) + s_j - s_i, or 0, over pairs R_i > R_j."""
    level = levels(grades)
    return max([0.0] + [level[i] - level[j] + scores[j] - scores[i] for i, j in pairs_of(grades)])


def places(scores, grades, v, margin, k=None):
    """(coefficients, active documents) of the listwise perceptron by places."""
    k = k or len(scores)
    level = levels(grades)
    demoted = scores - margin * level
    ranking = sorted(range(len(scores)), key=lambda i: (-demoted[i], grades[i], i))
    active = [i for p, i in enumerate(ranking) if v[i] > 0 and any(grades[j] < grades[i] for j in ranking[:p])]
    up, risen = np.zeros(len(scores)), 0.0
    distinct = np.unique(grades)
    for lower, grade in itertools.pairwise(distinct):
        if np.count_nonzero(grades > grade) >= k:  # of no document among the k best
            continue
        gain = gains(np.array([lower, grade]))
        target = sorted(ranking, key=lambda i: grades[i] < grade)  # keeps the order otherwise
        for i in range(len(scores)):
            place, better = min(ranking.index(i), k) + 1, min(target.index(i), k) + 1
            move = (gain[1] - gain[0]) * (np.log(place) - np.log(better))
            up[i] += move
            risen += move if grades[i] >= grade else 0.0
    if risen == 0:
        return np.zeros(len(scores)), []
    return -up * v[active].sum() / risen, active


def listwise(scores, grades, v, margin, violators, k=None):
    """(coefficients, active documents) of the listwise perceptron, for grades as the measure sees them."""
    if violators == "places":
        return places(scores, grades, v, margin, k)
    m = len(scores)
    g, active = np.zeros(m), []
    for i in range(m):
        against = [
            j for j in range(m) if grades[j] < grades[i] and (scores[j] > scores[i] - margin or scores[j] >= scores[i])
        ]
        if not against or v[i] == 0:
            continue
        active.append(i)
        g[i] -= v[i]
        if violators == "top":
            g[best_below(scores, grades, i)[1]] += v[i]
        else:
            for j in against:
                g[j] += v[i] / len(against)
    return g, active


def pairs_of(grades):
    """All (i, j) with R_i > R_j."""
    return [(i, j) for i in range(len(grades)) for j in range(len(grades)) if grades[i] > grades[j]]


def from_pairs(weighted, m):
    """Coefficients of the sum of weights times x_i - x_j, which the step goes against the sign of."""
    g = np.zeros(m)
    for i, j, weight in weighted:
        g[i] -= weight
        g[j] += weight
    return g


def category_ranking(scores, grades, pairs="uniform"):
    wrong = [(i, j) for i, j in pairs_of(grades) if scores[i] <= scores[j]]
    if not wrong:
        return np.zeros(len(scores)), 0.0
    if pairs == "max":
        _, i, j = widest_pair(scores, grades)
        wrong = [(i, j)]
    return from_pairs([(i, j, 1 / len(wrong)) for i, j in wrong], len(scores)), 1.0


def uneven_margins(scores, grades, margin):
    rank = [1 + sum(other > grade for other in grades) for grade in grades]
    active = []
    for i, j in pairs_of(grades):
        g = 1 / rank[i] - 1 / rank[j]
        if scores[i] - scores[j] < margin * g:
            active.append((i, j, g))
    return from_pairs(active, len(scores)), sum(g for _, _, g in active)


def predtron(scores, relevance, name, k):
    grades = judged(relevance, name)
    if not is_mistake(scores, relevance, name, k):
        return np.zeros(len(scores)), 0.0
    ranked = list(ranked_by(scores, grades, "worst"))
    ideal = sorted(range(len(scores)), key=lambda i: (-grades[i], -scores[i], i))
    return np.array([float(ideal.index(i) - ranked.index(i)) for i in range(len(scores))]), 1.0


def ranknet(scores, grades):
    pairs = pairs_of(grades)
    slopes = [(i, j, 1 / (1 + np.exp(scores[i] - scores[j])) / len(pairs)) for i, j in pairs]
    return from_pairs(slopes, len(scores)), 1.0


def toppush(scores, grades, loss="squared"):
    irrelevant = [j for j in range(len(scores)) if grades[j] == 0]
    rival = max(irrelevant, key=lambda j: (scores[j], -j))
    active = [i for i in range(len(scores)) if grades[i] > 0 and 1 + scores[rival] - scores[i] > 0]
    r = int((grades > 0).sum())
    slopes = {"hinge": lambda i: 1.0, "squared": lambda i: 1 + scores[rival] - scores[i]}[loss]
    return from_pairs([(i, rival, slopes(i) / r) for i in active], len(scores)), len(active) / r


def average_precision(order, grades):
    """AP of a ranking of documents that are relevant or not."""
    hits, total = 0, 0.0
    for place, i in enumerate(order, start=1):
        if grades[i] > 0:
            hits += 1
            total += hits / place
    return total / hits


def svm_map(scores, grades):
    """The worst ranking by trying all ways to merge the two classes, each by score."""
    relevant = sorted(np.flatnonzero(grades > 0), key=lambda i: (-scores[i], i))
    others = sorted(np.flatnonzero(grades == 0), key=lambda i: (-scores[i], i))
    m, a, b = len(scores), len(relevant), len(others)
    best, best_wrong = 0.0, []
    for places in itertools.combinations(range(m), a):
        upper, lower = iter(relevant), iter(others)
        order = [next(upper) if p in places else next(lower) for p in range(m)]
        wrong = [(i, j) for i in relevant for j in others if order.index(j) < order.index(i)]
        value = 1 - average_precision(order, grades) - sum(2 * (scores[i] - scores[j]) / (a * b) for i, j in wrong)
        if value > best + 1e-12:
            best, best_wrong = value, wrong
    return best, from_pairs([(i, j, 2 / (a * b)) for i, j in best_wrong], m)


class AdaGradSteps:
    """Divides each step by the root of the sum of squares so far, per feature or as a whole."""

    def __init__(self, kind):
        self.kind, self.squares = kind, 0.0

    def __call__(self, step):
        self.squares = self.squares + (step**2 if self.kind == "diagonal" else step @ step)
        return step / (np.sqrt(self.squares) + 1e-10)


class TwinRidge:
    """Ridge regression within queries: all normal equations so far are solved anew."""

    def __init__(self, n_features, penalty, target="grades"):
        self.penalty, self.target = penalty, target
        self.queries, self.is_close_call = [], False  # that rounding decides whether a unit is doubled
        self.units, self.first_units = np.zeros(n_features), np.zeros(n_features)
        self.weights = np.zeros(n_features)

    def targets(self, relevance):
        y = np.asarray(relevance, dtype=float) if self.target == "grades" else gains(relevance)
        return y - y.mean()

    def learn_one(self, X, relevance):
        if len(set(relevance)) == 1:
            return
        X = np.asarray(X, dtype=float)
        Z = np.where(np.ptp(X, axis=0) == 0, 0.0, X - X.mean(axis=0))
        self.queries.append((Z, self.targets(relevance)))
        for k in range(len(self.units)):
            columns = [Z[:, k] for Z, _ in self.queries if Z[:, k].any()]
            if not columns:
                continue
            variance = sum(column @ column for column in columns) / sum(map(len, columns))
            if self.units[k] == 0:
                self.units[k] = self.first_units[k] = np.sqrt(variance)
            while variance > 2 * self.units[k] ** 2:
                self.units[k] *= 2
            self.is_close_call |= any(abs(variance / unit**2 - 2) < 1e-9 for unit in (self.units[k], self.units[k] / 2))
        used = self.units > 0
        Z = np.vstack([Z for Z, _ in self.queries])[:, used] / self.units[used]
        y = np.concatenate([y for _, y in self.queries])
        self.weights[used] = np.linalg.solve(Z.T @ Z + self.penalty * np.eye(used.sum()), Z.T @ y) / self.units[used]

    def objective(self, weights):
        """Loss and penalty of a ranker, which the weights minimise."""
        loss = sum(((y - Z @ weights) ** 2).sum() for Z, y in self.queries)
        return loss + self.penalty * ((self.units * weights) ** 2).sum()


class TwinLearner:
    """All list learners, straight from the definitions."""

    def __init__(
        self,
        algorithm,
        n_features,
        name="ndcg",
        k=None,
        learning_rate=1.0,
        margin=0.0,
        relative_margin=0.0,
        violators="places",
        class_order="score",
        average=False,
        pairs="uniform",
        loss="squared",
        target="grades",
        adagrad=None,
    ):
        self.pairs, self.loss, self.target = pairs, loss, target
        self.adagrad = adagrad and AdaGradSteps(adagrad)
        self.algorithm, self.name, self.k = algorithm, name, k
        self.learning_rate, self.margin, self.relative_margin = learning_rate, margin, relative_margin
        self.violators, self.class_order, self.average = violators, class_order, average
        self.weights = np.zeros(n_features)
        self.iterates, self.reaches, self.n_updates = [], [], 0
        self.mean_loss = self.current_loss = self.used_loss = 0.0

    def coef(self):
        safe = self.mean_loss <= 2 * self.current_loss + 1
        return np.mean(self.iterates, axis=0) if self.average and self.iterates and safe else self.weights

    def judge(self, X, relevance):
        """Safe averaging: add up what rankings by the mean, by the current weights and by the one in use lose."""
        mean = np.mean(self.iterates, axis=0) if self.iterates else self.weights
        rankings = [X @ weights for weights in (mean, self.weights, self.coef())]
        losses = [1 - measure(self.name, scores, judged(relevance, self.name), k=self.k) for scores in rankings]
        self.mean_loss, self.current_loss, self.used_loss = np.add(
            [self.mean_loss, self.current_loss, self.used_loss], losses
        )

    def learn_one(self, X, relevance):
        X = np.asarray(X, dtype=float)
        scores = X @ self.weights
        grades = judged(relevance, self.name)
        g, mass = np.zeros(len(scores)), 0.0
        if self.algorithm == "listwise" and self.average and grades.any():
            self.judge(X, relevance)
        if len(set(grades)) > 1:
            v = slam_weights(scores, relevance, self.name, self.k, class_order=self.class_order)
            if self.algorithm == "listnet":
                target = relevance if self.target == "grades" else gains(np.asarray(relevance, dtype=float), "exp2")
                g, mass = softmax(scores) - softmax(target), 1.0
            elif self.algorithm == "slam":
                if is_mistake(scores, relevance, self.name, self.k):
                    _, g = slam(scores, grades, v, self.margin)
                    mass = -g[g < 0].sum()
            elif self.algorithm == "minimax":
                if is_mistake(scores, relevance, self.name, self.k):
                    _, i, j = widest_pair(scores, grades)
                    g[i], g[j], mass = -1.0, 1.0, 1.0
            elif self.algorithm == "listwise":
                margin = self.margin
                if self.relative_margin and self.reaches:
                    margin = self.relative_margin * self.learning_rate * np.mean(self.reaches)
                g, active = listwise(scores, grades, v, margin, self.violators, self.k)
                mass = v[active].sum()
            elif self.algorithm == "category-ranking":
                g, mass = category_ranking(scores, grades, self.pairs)
            elif self.algorithm == "uneven-margins":
                g, mass = uneven_margins(scores, grades, self.margin)
            elif self.algorithm == "predtron":
                g, mass = predtron(scores, relevance, self.name, self.k)
            elif self.algorithm == "ranknet":
                g, mass = ranknet(scores, grades)
            elif self.algorithm == "toppush":
                g, mass = toppush(scores, grades, self.loss)
        if mass > 0:
            step = X.T @ g
            adapted = step if self.adagrad is None else self.adagrad(step)
            self.reaches.append(step @ adapted / mass**2)
            step = adapted
            self.weights = self.weights - self.learning_rate * step
            self.n_updates += 1
        self.iterates.append(self.weights)
        return mass
