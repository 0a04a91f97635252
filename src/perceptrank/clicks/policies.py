"""Exploration policies: how a ranking is randomised before it is shown, and what the log must say about it."""

from __future__ import annotations

import functools
import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from perceptrank.clicks.lists import as_lists
from perceptrank.clicks.users.user import as_probability
from perceptrank.kernels.arrays import Bools, Floats, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.stream.columns import POLICY
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.texts import Texts
from perceptrank.stream.validation import ParameterError, check_positive, check_positive_whole

Names: TypeAlias = npt.NDArray[np.str_]


class Shown(NamedTuple):
    """Documents that a policy shows; for several lists, one row each.

    Attributes
    ----------
    order : array of int
        Documents by their number in the list, best first; -1 where a shorter list has ended.
    propensity : array of float
        Probability that the policy shows each of these documents at its place, given what `policy` says and, for
        Plackett-Luce and uniform lists, the documents above it; NaN where a shorter list has ended.
    policy : str or array of str
        The policy and those of its random choices that the log must record, such as ``fair-pairs:2``.
    """

    order: Ints
    propensity: Floats
    policy: Any


class Policy(ABC):
    """A way to randomise rankings: `NoExploration`, `FairPairs`, `PlackettLuce`, `Shuffle` or `Uniform`.

    The column ``policy`` of a log says ``none``; ``fair-pairs:1`` or ``fair-pairs:2``, the place where the first pair
    starts; ``plackett-luce:TEMPERATURE``; ``shuffle:K``; or ``uniform:SHARE``. Any other text is a policy of your own.

    Examples
    --------
    >>> import numpy as np
    >>> import perceptrank as pr
    >>> pr.clicks.FairPairs().show([0.1, 0.4, 0.3, 0.2], 3, np.random.default_rng(1))
    Shown(order=array([1, 2, 3]), propensity=array([1. , 0.5, 0.5]), policy='fair-pairs:2')
    """

    name: ClassVar[str]

    def show(self, scores: npt.ArrayLike, n: int, rng: np.random.Generator, *, keep: int = 0) -> Shown:
        """Return the documents to show, best first.

        Parameters
        ----------
        scores : array of shape (documents,) or (lists, documents)
            Scores of a list, or of several: rows of a matrix are NaN from where a list ends. Of documents with equal
            scores, the earlier one is the better one.
        n : int
            Number of places; shorter lists are shown in full.
        rng : numpy.random.Generator
        keep : int
            Number of best documents that are shown as ranked, above those that are randomised; for a single list.
        """
        lists = as_lists("scores", scores)
        check_positive_whole("n", n)
        if keep:
            check_positive_whole("keep", keep)
            if not lists.is_single:
                raise ParameterError("keep", "must be 0 for several lists", keep)
            return self._show_below(lists.values[0], int(n), rng, int(keep))
        order, propensity, names = self._show(lists.values, lists.present, int(n), np.random.default_rng(rng))
        shown = Shown(order, np.where(order < 0, np.nan, propensity), names)
        return Shown(shown.order[0], shown.propensity[0], str(names[0])) if lists.is_single else shown

    def _show_below(self, scores: Floats, n: int, rng: np.random.Generator, keep: int) -> Shown:
        (ranked,) = _rank(scores[None], len(scores))
        if n <= keep or len(ranked) <= keep:
            return Shown(ranked[:n], np.ones(len(ranked[:n])), "none")
        rest = np.sort(ranked[keep:])  # so that of equal scores the earlier one stays the better one
        shown = self.show(scores[rest], n - keep, rng)
        order = np.concatenate([ranked[:keep], rest[shown.order]])
        return Shown(order, np.concatenate([np.ones(keep), shown.propensity]), self._below(shown.policy, keep))

    def _below(self, policy: str, keep: int) -> str:
        """Return what the log says of a list whose first places were kept, with a propensity of 1."""
        return policy

    @abstractmethod
    def _show(self, scores: Floats, present: Bools, n: int, rng: np.random.Generator) -> tuple[Ints, Floats, Names]: ...


@dataclass(frozen=True)
class NoExploration(Policy):
    """Shows the ranking as it is; named ``none``.

    >>> NoExploration().show([1.0, 3.0, 2.0], 2, np.random.default_rng(0)).order
    array([1, 2])
    """

    name = "none"

    def _show(self, scores: Floats, present: Bools, n: int, rng: np.random.Generator) -> tuple[Ints, Floats, Names]:
        order = _rank(scores, n)
        return order, np.ones(order.shape), np.full(len(order), "none")


@dataclass(frozen=True)
class FairPairs(Policy):
    """Swaps neighbours at random; named ``fair-pairs``.

    With probability ½ the pairs are the places {1, 2}, {3, 4}, …, else {2, 3}, {4, 5}, …; each pair is swapped
    independently. The log says ``fair-pairs:1`` or ``fair-pairs:2``, the place where the first pair starts. Radlinski &
    Joachims, "Minimally Invasive Randomization for Collecting Unbiased Preferences from Clickthrough Logs", AAAI 2006;
    Raman et al., "Stable Coactive Learning via Perturbation", ICML 2013.

    Parameters
    ----------
    swap : float
        Probability that a pair is swapped.

    Examples
    --------
    >>> import numpy as np
    >>> FairPairs(swap=0.4).show([4.0, 3.0, 2.0, 1.0], 4, np.random.default_rng(0))
    Shown(order=array([0, 2, 1, 3]), propensity=array([1. , 0.4, 0.4, 1. ]), policy='fair-pairs:2')
    """

    name = "fair-pairs"

    swap: float = 0.5

    def __post_init__(self) -> None:
        as_probability("swap", self.swap)

    def _show(self, scores: Floats, present: Bools, n: int, rng: np.random.Generator) -> tuple[Ints, Floats, Names]:
        ranked = _rank(scores, n)
        n_places = ranked.shape[1]
        lengths = np.count_nonzero(ranked >= 0, axis=1)
        tossed = np.arange(1 + n_places // 2) <= lengths[:, None] // 2
        draws = np.ones(tossed.shape)
        draws[tossed] = rng.random(int(np.count_nonzero(tossed)))
        start = (draws[:, 0] >= 0.5).astype(np.int64)
        places = np.arange(n_places)
        pair = (places - start[:, None]) // 2  # -1 for a first document without partner
        partner = 2 * start[:, None] + 4 * pair + 1 - places  # the two places of a pair add up to this
        is_paired = (pair >= 0) & (np.maximum(places, partner) < lengths[:, None])
        is_swapped = is_paired & (np.take_along_axis(draws, np.minimum(pair + 1, n_places // 2), axis=1) < self.swap)
        order = np.take_along_axis(ranked, np.where(is_swapped, partner, places), axis=1)
        propensity = np.where(is_paired, np.where(is_swapped, self.swap, 1 - self.swap), 1.0)
        return order, propensity, np.where(start == 0, "fair-pairs:1", "fair-pairs:2")

    def _below(self, policy: str, keep: int) -> str:
        # Pairs above, which the coins were not for, are known by their propensity.
        return f"fair-pairs:{2 - (policy_kind(policy)[1] + keep) % 2}"


_MOST_PICKED = 64  # places of a list; for more, sorting all documents takes less time than picking the best again


@dataclass(frozen=True)
class PlackettLuce(Policy):
    """Draws one document after the other, in proportion to exp(score / temperature); named ``plackett-luce``.

    Parameters
    ----------
    temperature : float
        Greater than 0: near 0, the ranking is shown as it is; the greater, the more it is randomised.

    Examples
    --------
    >>> import numpy as np
    >>> PlackettLuce(0.5).show([0.0, 0.0, 0.0, 0.0], 2, np.random.default_rng(0)).propensity
    array([0.25      , 0.33333333])
    """

    name = "plackett-luce"

    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_positive("temperature", self.temperature)

    def _show(self, scores: Floats, present: Bools, n: int, rng: np.random.Generator) -> tuple[Ints, Floats, Names]:
        with np.errstate(over="ignore"):
            logits = scores[present] / self.temperature
        if np.isinf(logits).any():
            raise ParameterError(
                "temperature", "must be greater: scores / temperature must be finite", self.temperature
            )
        ends = np.cumsum(np.count_nonzero(present, axis=1))
        keys = logits + rng.gumbel(size=len(logits))
        order = np.full((len(scores), min(n, scores.shape[1])), -1)
        if n > _MOST_PICKED:
            rows = np.full(scores.shape, np.nan)
            rows[present] = keys
            order = _rank(rows, n)
        propensity = np.ones(order.shape)
        draw_lists(logits, keys, ends, order, propensity)
        return order, propensity, np.full(len(order), f"plackett-luce:{float(self.temperature)!r}")


@compiled
def draw_lists(logits: Floats, keys: Floats, ends: Ints, order: Ints, propensity: Floats) -> None:
    """Write the documents with the largest keys of each list, and their probabilities given those above; change keys.

    Documents of list q end at ends[q]. Probabilities are in proportion to exp(logit) among those not yet placed. If the
    order has documents already, they are those.
    """
    start = 0
    for q in range(len(ends)):
        m = ends[q] - start
        n = min(order.shape[1], m)
        for p in range(n):
            best = start + max(0, order[q, p])
            for i in range(start + 1, start + m if order[q, p] < 0 else start):
                best = i if keys[i] > keys[best] else best
            order[q, p], keys[best] = best - start, -math.inf
        largest, left = -math.inf, 0.0
        for i in range(start, start + m):
            largest = max(largest, logits[i])
        for i in range(start, start + m):
            left += math.exp(logits[i] - largest) if keys[i] > -math.inf else 0.0
        log_left = largest + math.log(left) if left > 0.0 else -math.inf
        for p in range(n - 1, -1, -1):
            logit = logits[start + order[q, p]]
            high, low = max(logit, log_left), min(logit, log_left)
            log_left = high + math.log1p(math.exp(low - high))
            propensity[q, p] = math.exp(logit - log_left)
        start = ends[q]


@dataclass(frozen=True)
class Shuffle(Policy):
    """Shows the best documents in uniformly random order, and the others below as ranked; named ``shuffle:K``.

    Parameters
    ----------
    k : int
        Number of best documents that are shuffled.

    Examples
    --------
    >>> import numpy as np
    >>> Shuffle(2).show([3.0, 2.0, 1.0], 3, np.random.default_rng(1))
    Shown(order=array([0, 1, 2]), propensity=array([0.5, 0.5, 1. ]), policy='shuffle:2')
    """

    name = "shuffle"

    k: int

    def __post_init__(self) -> None:
        check_positive_whole("k", self.k)

    def _show(self, scores: Floats, present: Bools, n: int, rng: np.random.Generator) -> tuple[Ints, Floats, Names]:
        ranked = _rank(scores, max(n, self.k))
        places = np.arange(ranked.shape[1])
        is_shuffled = (ranked >= 0) & (places < self.k)
        keys = np.tile(places + 1.0, (len(ranked), 1))
        keys[is_shuffled] = rng.random(int(np.count_nonzero(is_shuffled)))
        order = np.take_along_axis(ranked, np.argsort(keys, axis=1, kind="stable"), axis=1)[:, :n]
        n_shuffled = np.count_nonzero(is_shuffled, axis=1)[:, None]
        propensity = np.where(places < n_shuffled, 1 / np.maximum(n_shuffled, 1), 1.0)[:, :n]
        return order, propensity, np.full(len(order), f"shuffle:{self.k}")

    def _below(self, policy: str, keep: int) -> str:
        return f"shuffle:{self.k + keep}"


@dataclass(frozen=True)
class Uniform(Policy):
    """Shows a uniformly random list now and then, else the ranking as it is; named ``uniform:SHARE``.

    Parameters
    ----------
    share : float
        Probability of a random list.

    Examples
    --------
    >>> import numpy as np
    >>> Uniform(0.5).show([3.0, 2.0], 2, np.random.default_rng(0))
    Shown(order=array([0, 1]), propensity=array([0.75, 1.  ]), policy='uniform:0.5')
    """

    name = "uniform"

    share: float

    def __post_init__(self) -> None:
        as_probability("share", self.share)

    def _show(self, scores: Floats, present: Bools, n: int, rng: np.random.Generator) -> tuple[Ints, Floats, Names]:
        tossed = np.column_stack([np.ones(len(scores), bool), present])
        draws = np.full(tossed.shape, np.nan)
        draws[tossed] = rng.random(int(np.count_nonzero(tossed)))
        order = _rank(np.where(draws[:, :1] < self.share, draws[:, 1:], scores), n)
        left = np.maximum(np.count_nonzero(present, axis=1)[:, None] - np.arange(order.shape[1]), 1)
        is_ranking = np.logical_and.accumulate(order == _rank(scores, n), axis=1)
        prefix = self.share * np.cumprod(1 / left, axis=1) + (1 - self.share) * is_ranking
        above = np.column_stack([np.ones(len(order)), prefix])[:, :-1]
        return order, prefix / above, np.full(len(order), f"uniform:{float(self.share)!r}")


KINDS = ("fair-pairs", "shuffle", "plackett-luce", "uniform", "none", "other")
PAIRS, SHUFFLED, DRAWN, UNIFORM, NONE, OTHER = range(len(KINDS))
_LOGGED = re.compile(r"(fair-pairs|shuffle):([1-9][0-9]{0,8})|(plackett-luce|uniform|none)(?::.*)?")


@functools.lru_cache(1000)
def policy_kind(text: str) -> tuple[int, int]:
    """Return the kind of a policy, as a log has it, and its number: where pairs start, or how many are shuffled."""
    match = _LOGGED.fullmatch(text)
    return (KINDS.index(match[1] or match[3]), int(match[2] or 0)) if match else (OTHER, 0)


def policy_kinds(stream: QueryStream) -> tuple[Ints, Ints]:
    """Return the kinds of policies of all impressions of a stream, and their numbers."""
    texts = stream.columns.get(POLICY)
    texts = texts if isinstance(texts, Texts) else Texts.empty(len(stream))
    _, first, codes = np.unique(texts.hashes(), return_index=True, return_inverse=True)
    known = np.array([policy_kind(text) for text in texts[first].tolist()]).reshape(-1, 2)
    return known[codes, 0], known[codes, 1]


def policy(name: str | Policy) -> Policy:
    """Return an exploration policy by name.

    Parameters
    ----------
    name : str or Policy
        ``none``, ``fair-pairs``, ``plackett-luce``, ``plackett-luce:TEMPERATURE``, ``shuffle:K`` or ``uniform:SHARE``;
        a policy is returned unchanged.

    Examples
    --------
    >>> policy("plackett-luce:0.5"), policy("fair-pairs")
    (PlackettLuce(temperature=0.5), FairPairs(swap=0.5))
    """
    if isinstance(name, Policy):
        return name
    kind, colon, number = name.partition(":") if isinstance(name, str) else ("", "", "")
    without: dict[str, type[Policy]] = {"none": NoExploration, "fair-pairs": FairPairs, "plackett-luce": PlackettLuce}
    if kind in without and not colon:
        return without[kind]()
    try:
        if kind == "plackett-luce":
            return PlackettLuce(float(number))
        if kind == "shuffle":
            return Shuffle(int(number))
        if kind == "uniform":
            return Uniform(float(number))
    except ParameterError:
        raise
    except ValueError:
        pass
    rule = "must be none, fair-pairs, plackett-luce, plackett-luce:TEMPERATURE, shuffle:K or uniform:SHARE, or a policy"
    raise ParameterError("policy", rule, name)


def _rank(scores: Floats, n: int) -> Ints:
    """Return the n best documents of each row, best first; -1 where a row has fewer."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    return np.where(np.isnan(np.take_along_axis(scores, order, axis=1)), -1, order)
