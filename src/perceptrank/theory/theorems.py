"""The theorems, one function each; docs/theory/ has the proofs.

>>> slam(learning_rate=0.5).bound(diameter=2, margin=1), slam(learning_rate=0.125).bound(diameter=2, margin=1)
(4.0, 6.25)
>>> listwise().bound(diameter=2, margin=1), listwise(splits=True).bound(diameter=2, margin=1)
(12.0, 4.5)
>>> pair_perceptron().bound(radius=1, margin=1), perceptron().bound(radius=1, margin=0.5)
(4.0, 4.0)
>>> slam_as_in_the_paper(n_documents=10, weight_ratio=2).bound(radius=1, margin=1)
80.0
"""

from dataclasses import replace

from perceptrank.stream.validation import check_positive, check_positive_whole
from perceptrank.theory.theorem import Theorem

# Of safe averaging: the mean of all iterates ranks while its loss is at most MEAN_FACTOR times that of the current
# weights, plus HEAD_START.
MEAN_FACTOR = 2.0
HEAD_START = 1.0


def perceptron() -> Theorem:
    """Bound the mistakes of the classification perceptron (Algorithm 1)."""
    assumption = "a linear classifier has margin γ on the examples"
    return Theorem("mistakes ≤ R²/γ², in classification", "R²", "R²", 1.0, size="radius", assumption=assumption)


def slam_as_in_the_paper(n_documents: int, weight_ratio: float) -> Theorem:
    """Bound the cumulative loss of Algorithm 2 with margin 1 at the rate 1 / C as the paper does, C = 4 m R² v_max.

    The rate is for a separable stream; the general form holds for the best rate in hindsight. m is the largest number
    of documents of a query, or k for NDCG@k; v_max is `bounds.weight_ratio`, which belongs under the paper's root too.
    Not valid for `class_order="mean"` with a cut-off: then more than k weights are positive.
    """
    check_positive_whole("n_documents", n_documents)
    factor = 4 * n_documents * check_positive("weight_ratio", weight_ratio)
    return Theorem("loss ≤ 4 m R² v_max/γ²", "4 m R² v_max", "4 m R² v_max", factor, size="radius", surrogate="slam")


def slam(learning_rate: float, margin: float = 1.0, surrogate: str = "slam", *, splits: bool = True) -> Theorem:
    """Bound the cumulative loss of Algorithm 2 at any rate, or of the listwise perceptron with an absolute margin.

    If outranked documents are moved against the best-scored one of a lower grade, the bound splits (Theorem A').
    """
    statement = "loss ≤ (D² + b)²/(4b γ²), b = max(D², 2Δ/η)" if splits else "loss ≤ (D² + 2Δ/η)/γ²"
    formula, offset = f"(D² + {2 * margin:g} / rate)", 2 * margin / learning_rate
    return Theorem(statement, "D² + 2Δ/η", formula, 1.0, offset, splits, surrogate=surrogate)


def pair_perceptron() -> Theorem:
    """Bound the mistakes, hence the cumulative loss, of Algorithm 3 and of category ranking."""
    return Theorem("mistakes ≤ D²/γ²", "D²", "D²", 1.0, surrogate="max-pair")


def listwise(relative_margin: float = 1.0, surrogate: str = "level-pair", *, splits: bool = False) -> Theorem:
    """Bound the cumulative loss of the listwise perceptron with a relative margin ρ.

    If outranked documents are moved against the best-scored one of a lower grade, the bound splits (Theorem C').
    """
    factor = 1 + 2 * relative_margin
    statement = "loss ≤ (1 + b)²/4b D²/γ², b = max(1, 2ρ)" if splits else "loss ≤ (1 + 2ρ) D²/γ²"
    return Theorem(statement, "(1 + 2ρ) D²", f"{factor:g} D²", factor, splits=splits, surrogate=surrogate)


def for_top(promised: Theorem, cutoff: int | None) -> Theorem:
    """Restrict margin and diameter to pairs whose better document belongs in the first places, with a cut-off."""
    if cutoff is None:
        return promised
    pairs = f"has margin γ on the pairs whose better document belongs in the first {cutoff} places"
    assumption = promised.assumption.replace("has margin γ on the stream", pairs)
    return replace(promised, cutoff=cutoff, assumption=assumption)


def safe_averaging(current: Theorem) -> Theorem:
    """Bound the loss of safe averaging, given the theorem about rankings by the current weights."""
    promised, bound = current.statement.split(" ≤ ")
    bound, comma, where = bound.partition(", ")  # what the symbols are
    multiple, extra = 1 + MEAN_FACTOR, HEAD_START + 1
    statement = f"{promised} ≤ {multiple:g} {bound} + {extra:g}{comma}{where}"
    assumption = current.assumption.removesuffix("; rankings by the current weights")
    return replace(current, statement=statement, multiple=multiple, extra=extra, assumption=assumption)


def from_start(promised: Theorem) -> Theorem:
    """Bound the loss of a learner that starts from weights w₁ that are not 0, given its theorem for w₁ = 0."""
    bound, comma, where = promised.statement.partition(", ")
    return replace(promised, statement=f"{bound} + {2 * promised.multiple:g}|w₁|/(ηγ){comma}{where}", starts=True)


def constrained(promised: Theorem) -> Theorem:
    """Restrict the rankers that a learner is compared with to those that satisfy its constraints."""
    assumption = promised.assumption.replace("a linear ranker", "a linear ranker that satisfies the constraints")
    return replace(promised, assumption=assumption)


def in_kernel_space(promised: Theorem) -> Theorem:
    """State a theorem about a linear ranker for functions of a kernel, in whose space it is linear."""
    assumption = promised.assumption.replace("a linear ranker", "a function in the space of the kernel")
    return replace(promised, surrogate=None, assumption=assumption.replace("weights", "function"))


def random_budget(*, decay: float = 1.0, beside_weights: bool = False) -> Theorem:
    """Bound the expected loss with a budget that removes updates at random; `bounds.random_budget` computes it."""
    cost = "M/2k" if decay == 1 else f"{decay:g} M/(2k - {decay:g})"
    removed = f"(D²U² + (DU + 1/2)² {cost})" if beside_weights else f"D²U² (1 + {cost})"
    kept = "k of them" if decay <= 1 else f"k ≥ {decay:g} of them"
    return Theorem(
        f"expected loss ≤ 2 L + 2 (1 + ρ) {removed}",
        assumption=f"none; expectation over the draws; rankings by the current function; M updates, at least {kept} "
        "kept; D and U in the space of the kernel",
    )


def forgetron() -> Theorem:
    """Bound the loss of the Forgetron by the cost of its removals; a certificate computes it."""
    return Theorem(
        "loss ≤ 2 L + (1 + 2ρ) D²U² (1 + s/2) + Q",
        assumption="none; rankings by the current function; Q, the cost of removals, is at most 15/32 of the weight "
        "moved; s is the logarithm of the total shrinking",
    )


def fading(*, starts: bool = False, from_clicks: bool = False) -> Theorem:
    """Bound the loss of a learner that forgets against a ranker that moves; `drift.fading` computes it.

    Of a learner from clicks, which do not show the loss, only the weight moved is bounded.
    """
    bounded = "weight moved" if from_clicks else "loss"
    return Theorem(
        f"{bounded} ≤ G + U √((C S + |v₁|²) (1 + λS/2)), G = L - ⟨v₁, u₁⟩ + W P, v₁ = w₁/η"
        if starts
        else f"{bounded} ≤ G + U √(C S (1 + λS/2)), G = L + W P",
        starts=starts,
        assumption="none; rankings by the current weights; P is the length of the path of a linear ranker, W a bound "
        "on the weights, λ the rate of forgetting, S the weight moved",
    )


def measured_budget() -> Theorem:
    """Bound the loss of a function on a budget by the lengths of what was removed; a certificate computes it."""
    return Theorem(
        "loss ≤ L + U (|f| + E)",
        assumption="none; rankings by the current function f; E is the sum of the lengths, in the space of the kernel, "
        "of what the budget removed from it",
    )


def prank(margin: float = 0.0) -> Theorem:
    """Bound the number of thresholds that PRank gets wrong, with or without a margin; `bounds.prank` computes it."""
    bound = "(n R² + 1 + b)²/(4b γ²), b = max(n R² + 1, 2 margin)" if margin else "(n R² + 1)/γ²"
    return Theorem(
        f"thresholds wrong ≤ {bound}",
        assumption="a unit vector of weights and n thresholds separates grades with margin γ",
    )


def examined(relative_margin: float = 1.0) -> Theorem:
    """Bound the loss of the listwise perceptron on examined documents; for any users, only the weight that it moves."""
    return replace(
        listwise(relative_margin, surrogate="slam"),
        statement="observed loss ≤ (1 + 2ρ) D²/γ², expected loss ≤ that / π",
        assumption="a linear ranker has margin γ on relevance; users click what is relevant and examined, any two "
        "documents with probability π or more, and the log says what they examined; rankings by the current weights. "
        "Of any users: the weight moved has the bound against every ranker's hinges on the preferences observed",
    )


def perturbed() -> Theorem:
    """Bound the gain, by a vector u of norm U, of the steps ζ of the perturbed preference perceptron."""
    return Theorem("Σ u·ζ ≤ U √(D² M + 2A), A = Σ w·ζ", assumption="weights start at 0; any users; M the weight moved")


def fair_pairs(*, logistic: bool = False) -> Theorem:
    """Bound the misordered neighbours by the loss of any ranker u; m_t are the margins, N_t the evidence."""
    own = "divergence" if logistic else "hinges"
    users = "users who go from top to bottom, whose divergence is 0 if u·x is the logit of attractiveness"
    assumption = (
        f"fair pairs; {users if logistic else 'any users'}; weights start at 0; rankings by the current weights"
    )
    return Theorem(f"expected misordered ≤ u's {own} + U² m_T/2 + Σ D² (N_t - N_(t-1))/2m_t", assumption=assumption)


def gradient_descent(*, on_average: bool = False) -> Theorem:
    """State that a learner has the regret of online gradient descent in its surrogate, but no bound in a measure.

    On average: of a surrogate that is convex in expectation over clicks only.
    """
    if on_average:
        assumption = "examination and trust are right, and nothing is clipped; expectation over clicks"
        return Theorem("the expected regret of gradient descent", assumption=assumption)
    return Theorem("the regret of gradient descent", assumption="none")


def leader() -> Theorem:
    """Bound the loss of a tournament that ranks with the best learner so far; `bounds.leader` computes it."""
    return Theorem("leader: loss ≤ N L* + N - 1, L* the best's", assumption="none; losses from 0 to 1")


def tracking() -> Theorem:
    """Bound the loss of `Forgetting`, in which no learner falls far behind the leader; `drift.tracking` computes it."""
    return Theorem(
        "loss ≤ N (L* + (K - 1) lag) + lag + N - 1, L* the best's in each of K parts",
        assumption="none; losses from 0 to 1, the stream cut into any K parts",
    )


def hedge(rate: float | None = None) -> Theorem:
    """Bound the expected loss of a tournament with exponential weights; `bounds.hedge` computes it."""
    fixed = "(η L* + ln N)/(1 - exp(-η)), L* the best's"
    bound = fixed if rate is not None else "the best's + √(2 T ln N) + √(ln N / 8)"
    return Theorem(f"hedge: expected loss ≤ {bound}", assumption="none; expectation over the draws")


def ridge() -> Theorem:
    """Bound the squared loss of online ridge regression; `bounds.ridge` computes the regret."""
    return Theorem(
        "squared loss ≤ any u's + λ Σ(unit u)² + E² (d ln(1 + 2n/λ) + 2k ln 2)",
        assumption="none; squared differences of centred scores and targets, E² the largest sum of a query; "
        "n documents, d features, penalty λ, k doublings of units",
    )
