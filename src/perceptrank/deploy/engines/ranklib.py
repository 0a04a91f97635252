"""Models of RankLib, in the formats of its Coordinate Ascent, a linear function, and LambdaMART, a sum of trees."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from perceptrank.deploy.additive import Additive, as_sum
from perceptrank.deploy.engines.float_model import ULP
from perceptrank.deploy.engines.programs import find_program, folder_with, run_program
from perceptrank.deploy.engines.score_shift import find_values
from perceptrank.deploy.engines.trees import float_trees, is_linear
from perceptrank.deploy.folding import Folded
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.deploy.target import Differences, SumTarget, note_no_bias
from perceptrank.kernels.arrays import Floats

# RankLib skips these lines, but for the first, which names the kind of model.
_HEAD = """\
## Coordinate Ascent
## Restart = 0
## MaxIteration = 0
## StepBase = 0.05
## StepScale = 2.0
## Tolerance = 0.001
## Regularized = false
## Slack = 0.001
"""

_TREES_HEAD = """\
## LambdaMART
## No. of trees = {trees}
## No. of leaves = {leaves}
## No. of threshold candidates = 256
## Learning rate = 1.0
## Stop early = 100

"""


@dataclass(frozen=True, kw_only=True)
class RankLibModel(SumTarget):
    """A file that RankLib loads; not its linear regression, whose files it does not read back as it wrote them.

    Parameters
    ----------
    jar : str, optional
        For parity: the file of RankLib, or of a fork such as RankyMcRankFace.
    values : path or stream, optional
        As of `FloatModel`.
    """

    name = "ranklib"

    jar: str | None = None
    values: Any = None

    def settled(self, model: Any, function: RankingFunction) -> Self:
        return replace(self, values=find_values(self.values, self.name, function, as_sum(function)))

    def write(self, model: Folded | Additive) -> tuple[str, list[str]]:
        return self._write_weights(model) if is_linear(model) else self._write_trees(model)

    def _write_weights(self, folded: Folded) -> tuple[str, list[str]]:
        places, weights = folded.places.tolist(), folded.weights.tolist()
        notes = [
            f"features are numbers, from 1 for {folded.names[0]!r} to {len(folded.names)} for {folded.names[-1]!r}",
            "RankLib reads features as float32; it must not normalise them (no -norm): weights are of raw features",
        ]
        notes += note_no_bias(folded.constant)
        return _HEAD + " ".join(f"{place + 1}:{weights[place]!r}" for place in places) + "\n", notes

    def _write_trees(self, model: Folded | Additive) -> tuple[str, list[str]]:
        sums = float_trees(self.name, model, values=self.values)
        roots = sums.forest.nested(lambda value: [f"<output> {value!r} </output>"], _split)
        trees = ["".join(f"\t{line}\n" for line in _inside(root, "")) for root in roots]
        lines = [f'\t<tree id="{number}" weight="1.0">\n{tree}\t</tree>' for number, tree in enumerate(trees, 1)]
        _, owners = sums.forest.owners()
        text = _TREES_HEAD.format(trees=len(trees), leaves=np.bincount(owners).max())
        text += "\n".join(["<ensemble>", *lines, "</ensemble>"])
        first, last = sums.forest.features.min(), sums.forest.features.max()
        notes = [
            *sums.notes,
            f"features are numbers, their columns from 1 on: {first + 1} for {sums.name(first)!r}, {last + 1} "
            f"for {sums.name(last)!r}",
            "RankLib must not normalise features (no -norm): thresholds are of raw features",
            *note_no_bias(sums.dropped),
        ]
        return text + "\n", notes

    def differences(self, function: RankingFunction) -> Differences:
        model = as_sum(function)
        if is_linear(model):
            dropped, n = model.constant, len(model.places)
        else:
            sums = float_trees(self.name, model, values=self.values)
            dropped, n = sums.dropped, sums.forest.n_trees
        return Differences(4 * ULP * n, dropped)

    def engine(self) -> str:
        self._command()
        return f"RankLib ({Path(str(self.jar)).name})"

    def _command(self) -> list[str]:
        if self.jar is None or not Path(self.jar).is_file():
            raise FileNotFoundError(f"the option jar of ranklib must be RankLib's jar file, got {self.jar!r}")
        return [find_program("java", "RankLib"), "-cp", str(Path(self.jar).resolve()), "ciir.umass.edu.eval.Evaluator"]

    def run(self, model: Folded | Additive, text: str, columns: Any) -> Floats:
        numbers = (model.places + 1).tolist()
        lines = [
            "0 qid:1 " + " ".join(f"{number}:{value!r}" for number, value in zip(numbers, row, strict=True))
            for row in columns.tolist()
        ]
        with folder_with({"model.txt": text, "documents.txt": "\n".join(lines) + "\n"}) as folder:
            files = ["-load", "model.txt", "-rank", "documents.txt", "-score", "scores.txt"]
            run_program([*self._command(), *files], folder=folder)
            scores = Path(folder, "scores.txt").read_text(encoding="utf-8").split("\n")
        return np.array([float(line.split("\t")[2]) for line in scores if line])


def _split(feature: int, threshold: float, left: list[str], right: list[str]) -> list[str]:
    """Return a node; RankLib goes left if a value is not above the threshold."""
    sides = [line for side, node in (("left", left), ("right", right)) for line in _inside(node, f' pos="{side}"')]
    return [f"<feature> {feature + 1} </feature>", f"<threshold> {threshold!r} </threshold>", *sides]


def _inside(node: list[str], side: str) -> list[str]:
    return [f"\t<split{side}>", *(f"\t\t{line}" for line in node), "\t</split>"]
