"""Rankers of today, and learners that start from them: `learn --from`."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import perceptrank as pr
from perceptrank.cli.making import has_setting, make_learner, weights_of
from perceptrank.cli.terminal.streams import say

if TYPE_CHECKING:
    from perceptrank.transforms.trees.forest import Forest

COLUMN = "column:"
N_AHEAD = 100  # queries whose scores tell how far those of trees are apart


@dataclass(frozen=True)
class Incumbent:
    """A ranker that does not learn."""

    ranker: "pr.Learner"
    weights: dict[str, float] | None = None  # by name, if that is what a file holds
    column: str | None = None  # the feature that has its score, if there is one
    forest: "Forest | None" = None  # its trees

    def start(
        self, algorithm: str | None, settings: dict[str, Any], ahead: "pr.QueryStream | None" = None
    ) -> "pr.Learner":
        """Return a learner that starts from it: the named one, or the leader of it and of learners from it.

        Of trees, `ahead` are the first queries, whose grades are not looked at; without them, leaves are not learned.
        """
        if twice := sorted({"initial_weights", "production"} & settings.keys()):
            raise ValueError(f"{twice[0]} is given twice, by --from and by --set")
        if algorithm == "fixed":
            if self.ranker.learns:
                raise ValueError(
                    f"--algorithm fixed is for rankers that do not learn, and --from is a model of {self.ranker.name}, "
                    "which `evaluate`, `compare` and `export` take as it is"
                )
            return make_learner(algorithm, self.ranker.get_params(deep=False) | settings) if settings else self.ranker
        measure = settings.get("measure", "ndcg@10")
        if algorithm is None and self.forest is not None and ahead is not None and not settings.keys() - {"measure"}:
            leaves = pr.TreeLeaves(self.forest)
            values = leaves.start_weights(ahead)
            from_values = settings | {"transforms": None, "initial_weights": values}
            kinds = [pr.ListwisePerceptron(**from_values, average=average) for average in (True, False)]
            return pr.Tournament([pr.FixedRanker(values), *kinds], measure=measure, transforms=leaves)
        name = algorithm or "listwise"
        if not has_setting(name, "production"):
            starts = ", ".join(kind for kind in pr.algorithms() if has_setting(kind, "production"))
            raise ValueError(f"{name} cannot start from another ranker; these learners of grades can: {starts}")
        chosen = settings.get("transforms", "auto")
        score = [] if self.column else [pr.ScoreOf(self.ranker)]
        transforms = [*score, *([chosen] if isinstance(chosen, str) else chosen)]
        learner = make_learner(name, settings | {"transforms": transforms, "production": self.column or "score"})
        return learner if algorithm else pr.Tournament([self.ranker, learner], measure=measure)

    def trace(self, block: "pr.QueryStream", measures: "list[pr.Measure]") -> "pr.Trace":
        """Return how well it ranks a block."""
        import numpy as np

        found = pr.evaluate(self.ranker, block, measures)
        return pr.Trace({each: found.values(each) for each in measures}, np.zeros(len(block)), block.query_weights)


def say_if_below(learned: "pr.Trace", start: "pr.Trace", measure: "pr.Measure") -> None:
    """Say so if the later half of the queries was ranked worse than the start ranks them."""
    half = (len(start) + 1) // 2
    now, before = learned[-half:].mean(measure), start[-half:].mean(measure)
    if now < before:
        say(
            f"what was learned ends below its start: {measure} is {now:.4f} against {before:.4f} in the later half of "
            "the queries; keep the start, or learn from more queries"
        )


def read_incumbent(source: str, *, may_learn: bool, ahead: "pr.QueryStream | None" = None) -> Incumbent | None:
    """Read what `--from` names; None if it is a model that learns, unless that starts another learner."""
    if source.startswith(COLUMN):
        column = source.removeprefix(COLUMN)
        return Incumbent(pr.FixedRanker({column: 1.0}), column=column)
    if library := library_of_trees(source):
        n_features = ahead.n_features if ahead is not None and library == "RankLib" else None  # which records none
        forest = pr.read_forest(source, n_features)
        return Incumbent(pr.FixedRanker(forest.values, transforms=pr.TreeLeaves(forest)), forest=forest)
    weights = weights_of(source)
    if weights is not None:
        return Incumbent(pr.FixedRanker(weights), weights)
    ranker = pr.load(source)
    return None if ranker.learns and may_learn else Incumbent(ranker)


def library_of_trees(source: str | None) -> str:
    """Return the library that wrote a file of trees, as its content says; empty if the file has none."""
    if source is None or source.startswith(COLUMN) or not Path(source).is_file():
        return ""
    content = Path(source).read_bytes().removeprefix(b"\xef\xbb\xbf").lstrip()
    if not content.startswith(b"{"):
        return "LightGBM" if content.startswith(b"tree") else "RankLib" if content.startswith((b"##", b"<")) else ""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return "XGBoost" if content.startswith(b"{L") else ""  # UBJSON, about which the reader says what to do
    return "XGBoost" if isinstance(document.get("learner"), dict) and "version" in document else ""


def look_ahead(blocks: "Iterator[pr.QueryStream]") -> "tuple[pr.QueryStream | None, Iterator[pr.QueryStream]]":
    """Return the first 100 queries, None if there are none, and all blocks, with those that they are in."""
    first: list[pr.QueryStream] = []
    while sum(map(len, first)) < N_AHEAD and (block := next(blocks, None)) is not None:
        first.append(block)
    return (pr.QueryStream.concatenate(first)[:N_AHEAD] if first else None), chain(first, blocks)
