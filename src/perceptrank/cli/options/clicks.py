"""Options of simulated clicks."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

import perceptrank as pr
from perceptrank.cli.making import load_ranker
from perceptrank.cli.options.files import Reads, What

if TYPE_CHECKING:
    from perceptrank.kernels.arrays import Floats
    from perceptrank.stream.blocks import Scan

_CASCADES = ("perfect", "navigational", "informational", "almost-random")
Clicks = StrEnum("Clicks", "perfect navigational informational almost-random position-based contrary")
Stop = StrEnum("Stop", "click any")  # what a cascade user may stop after


@dataclass(frozen=True, kw_only=True)
class ClickOptions:
    """Options of simulated users and of what is shown to them; those that are not given are None."""

    clicks: Annotated[
        Clicks | None,
        typer.Option(help="Simulate impressions of graded queries, clicked by this user, instead of the queries."),
    ] = None
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Graded queries to show, in any format of 'learn'; may be repeated. By default they are simulated, "
            "as --kind and others say.",
        ),
        Reads(What.data),
    ] = None
    ranker: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Model or weights to rank by; by default documents stay in order."),
        Reads(),
    ] = None
    policy: Annotated[
        str | None,
        typer.Option(help="Exploration: none, fair-pairs, plackett-luce:TEMPERATURE, shuffle:K or uniform:SHARE."),
    ] = None
    impressions: Annotated[
        int | None, typer.Option(min=1, help="Impressions of queries drawn at random; by default one of each query.")
    ] = None
    n: Annotated[int | None, typer.Option("--top", min=1, help="Number of documents to show; by default 10.")] = None
    stop: Annotated[
        Stop | None, typer.Option(help="What a cascade user may stop after: a click (default), or any document.")
    ] = None
    grades: Annotated[
        int | None, typer.Option(min=2, help="Number of grades the user knows; by default as the data has: 2, 3 or 5.")
    ] = None
    examination: Annotated[
        str | None,
        typer.Option(
            metavar="SHARES", help="How often position-based users look at places: 1,0.6,…; by default 1/place."
        ),
    ] = None
    shown_only: Annotated[bool, typer.Option("--shown-only", help="Leave out documents that are not shown.")] = False

    @property
    def name(self) -> str:
        """Name of the user, empty if there is none."""
        return "" if self.clicks is None else self.clicks.value

    def check(self) -> None:
        """Raise if options are given that have no effect."""
        if self.stop is not None and self.name not in _CASCADES:
            raise ValueError(f"--stop is for --clicks {', '.join(_CASCADES)}, got {self.name}")
        if self.grades is not None and self.name == "contrary":
            raise ValueError("--grades is for users who know grades, got --clicks contrary")
        if self.examination is not None and self.name != "position-based":
            raise ValueError(f"--examination is for --clicks position-based, got {self.name}")

    def show(self, stream: "pr.QueryStream", seed: int) -> tuple["Scan", dict[str, object]]:
        """Return impressions of graded queries, and the settings in full."""
        n, policy = self.n or 10, self.policy or "none"
        user, of_user = self._user(self.grades or _count_grades(stream), n)
        ranker = None if self.ranker is None else _NamedFeatures(self.ranker)
        shown: dict[str, Any] = {"n": n, "impressions": self.impressions, "shown_only": self.shown_only}
        log = pr.clicks.scan_simulated_clicks(stream, user, ranker=ranker, policy=policy, seed=seed, **shown)
        return log, {"user": self.name, **of_user, "top": n, "policy": policy, "seed": seed}

    def _user(self, grades: int, n: int) -> tuple["pr.clicks.User", dict[str, object]]:
        from perceptrank.clicks.users.by_place import noisy_attraction

        if self.name in _CASCADES:
            stop = "click" if self.stop is None else self.stop.value
            return pr.clicks.user(self.name, grades=grades, stop=stop), {"grades": grades, "stop": stop}
        if self.name == "contrary":
            return pr.clicks.contrary(), {}
        examination = [1 / place for place in range(1, n + 1)]
        if self.examination is not None:
            examination = as_numbers("--examination", self.examination)
        return pr.clicks.position_based(examination, attraction=noisy_attraction(grades)), {"grades": grades}


def as_numbers(name: str, text: str) -> list[float]:
    """Return the numbers of a text."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{name} must be numbers with commas between them, got {text!r}") from None


class _NamedFeatures:
    """A saved model that finds its features by name among those of the data."""

    def __init__(self, path: str) -> None:
        self._ranker = load_ranker(path)

    def scores(self, stream: "pr.QueryStream") -> "Floats":
        from perceptrank.io.sources import adapt_block

        return self._ranker.scores(adapt_block(stream, self._ranker.model.needed_names, None))


def _count_grades(stream: "pr.QueryStream") -> int:
    """Return how many grades users must know: 2 if all are 0 or 1, 3 up to 2, else 5."""
    largest = max(float(block.relevance.max()) for block in stream.blocks())
    return 2 if largest <= 1 else 3 if largest <= 2 else 5
