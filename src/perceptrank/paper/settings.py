"""Settings of the reproduction."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from perceptrank.paper.real_sets import as_text
from perceptrank.stream.validation import check_choice, check_positive_whole, check_seed


@dataclass(frozen=True)
class Settings:
    """Settings of a reproduction.

    Parameters
    ----------
    data : Path, optional
        Folder of real data sets; without it only the simulated stream is used.
    quick : bool
        Run fewer and shorter trials, as a smoke test.
    seed : int
        First seed.
    n_seeds : int, optional
        Number of seeds; default 10, or 3 if `quick`.
    scaling : {"auto", "none", "query-zscore", "query-minmax", "running"}
        Scaling of real data sets; "auto" standardises features per query unless they are in [-1, 1].
    order : {"shuffled", "given"}
        Order of the queries of real data sets.
    passes : int
        Number of passes over real data sets.
    """

    data: Path | None = None
    quick: bool = False
    seed: int = 0
    n_seeds: int | None = None
    scaling: str = "auto"
    order: str = "shuffled"
    passes: int = 1

    def __post_init__(self) -> None:
        check_seed(self.seed)
        check_positive_whole("passes", self.passes)
        check_choice("scaling", self.scaling, ["auto", "none", "query-zscore", "query-minmax", "running"])
        check_choice("order", self.order, ["shuffled", "given"])
        if self.n_seeds is not None:
            check_positive_whole("n_seeds", self.n_seeds)

    @property
    def seeds(self) -> list[int]:
        """Seeds of the trials."""
        default = 3 if self.quick else 10
        return list(range(self.seed, self.seed + (self.n_seeds or default)))

    @property
    def simulated_shape(self) -> tuple[int, int]:
        """Number of queries and of passes of the simulated stream."""
        return (500, 5) if self.quick else (500, 40)

    @property
    def max_queries(self) -> int | None:
        """Maximal number of queries of a real data set; None if all are used."""
        return 1000 if self.quick else None

    @property
    def command(self) -> str:
        """Command line that reproduces the report."""
        words = ["perceptrank", "reproduce"]
        words += ["--data", as_text(self.data)] if self.data is not None else []
        words += ["--quick"] if self.quick else []
        words += ["--seed", str(self.seed)]
        words += ["--seeds", str(self.n_seeds)] if self.n_seeds is not None else []
        words += ["--scaling", self.scaling] if self.scaling != "auto" else []
        words += ["--order", self.order] if self.order != "shuffled" else []
        words += ["--passes", str(self.passes)] if self.passes != 1 else []
        return shlex.join(words)
