"""The command `adversary`."""

from enum import StrEnum
from typing import Annotated, Any

import typer

import perceptrank as pr
from perceptrank.cli.making import has_setting, make_learner
from perceptrank.cli.options.shared import AsJson, LearnerSettings, Measure, Pairs
from perceptrank.cli.terminal.tables import announce_compiling, print_text, show

Version = StrEnum("Version", "sharp paper exact simplex margin")  # the adversary's game


def adversary(
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "--learner",
            help="Learner to play against (listwise, or kernel with --budget); bagging:slam wraps slam.",
        ),
    ] = None,
    radius: Annotated[float, typer.Option(help="Norm of every document.")] = 1.0,
    margin: Annotated[float, typer.Option(help="Margin of the stream.")] = 0.1,
    comparator: Annotated[
        str | None,
        typer.Option(help="For --version simplex, in place of the margin: norm and surrogate U,L of a fixed ranker."),
    ] = None,
    n_documents: Annotated[
        int | None, typer.Option("--documents", min=2, help="Documents per query; by default 3, or 2.")
    ] = None,
    version: Annotated[
        Version,
        typer.Option(
            help="sharp: 4R²/γ² rounds, each lost by any learner; paper: R²/γ² rounds; exact: as many rounds as the "
            "bound allows, each with the largest loss, for learners whose weights combine the documents seen; "
            "simplex: each with the largest loss, for any learner; margin: the stream on which a margin costs "
            "listwise most."
        ),
    ] = Version.sharp,
    rounds: Annotated[int | None, typer.Option(min=1, help="Play fewer rounds.")] = None,
    budget: Annotated[
        int | None,
        typer.Option(min=2, help="Play against a learner that stores so many documents, and never stops losing."),
    ] = None,
    record: Annotated[str, typer.Option(help="Measure; the loss is 1 minus it.")] = "ndcg",
    measure: Measure = None,
    pairs: Pairs = None,
    as_json: AsJson = False,
) -> None:
    """Play the game of the lower bound: the adversary makes any learner lose in every round.

    Learners rank by their current weights, as in the theorems, unless --set average=true is given.

    Example: perceptrank adversary --algorithm slam --radius 1 --margin 0.05
    """
    against = None if comparator is None else _parse_comparator(comparator)
    if against is not None and version not in (Version.sharp, Version.simplex):
        raise ValueError(f"--comparator is for --version simplex, not for {version.value}")
    algorithm = algorithm or ("listwise" if budget is None else "kernel")
    announce_compiling()
    settings = LearnerSettings(measure=measure, pairs=pairs).given()
    if has_setting(algorithm, "transforms"):
        settings.setdefault("transforms", [])  # the game is about the features that it sends
    if budget is not None:
        if has_setting(algorithm, "budget"):
            settings.setdefault("budget", budget)
        if has_setting(algorithm, "linear"):
            settings.setdefault("linear", 0.0)  # the game is about functions that are made of documents alone
        _play_budget(algorithm, make_learner(algorithm, settings), budget, rounds, radius, record, as_json)
        return
    if has_setting(algorithm, "average"):
        settings.setdefault("average", False)  # the theorems are about the current weights
    learner = make_learner(algorithm, settings)
    if version is Version.margin:
        _play_margin(algorithm, learner, margin, n_documents, as_json)
        return
    asked: dict[str, Any] = {"radius": radius, "margin": margin, "rounds": rounds, "measure": record}
    if against is not None:
        version, asked = Version.simplex, asked | {"margin": None, "comparator": against}
    n_documents = n_documents or (2 if version is Version.simplex else 3)
    if version is Version.simplex:
        game = pr.theory.play_simplex(learner, n_documents=n_documents, **asked)
    else:
        game = pr.theory.play(learner, n_documents=n_documents, version=version.value, **asked)
    (name,) = game.trace.means()
    results = {
        "per round": float(game.trace.losses(name).mean()),
        "lower bound": game.lower_bound,
        "upper bound": _upper_bound(learner, radius, game, name, n_documents),
        "margin": game.margin,
    }
    given = f"margin {margin:g}" if against is None else f"comparator {comparator}"
    title = f"against the adversary, radius {radius:g}, {given}, {version.value} version"
    facts = {"radius": radius, "margin": margin, "version": version.value, "separator": game.separator.tolist()}
    facts |= {} if against is None else {"margin": game.margin, "comparator": list(against)}
    _show({"algorithm": algorithm}, game.trace, results, title, facts, as_json)
    if not as_json:
        shown = ", ".join(f"{weight:+.3f}" for weight in game.separator[:4])
        n_weights, n_queries = len(game.separator), len(game.trace)
        print_text(f"({shown}, ...) of {n_weights:,} weights ranks all {n_queries:,} queries with that margin")
        if learner.theorem.surrogate is not None and learner.average and not learner.theorem.extra:
            print_text("it ranked with the mean of its weights, for which there is no upper bound; --set average=false")


def _show(
    names: dict[str, Any], trace: "pr.Trace", results: dict[str, Any], title: str, facts: dict[str, Any], as_json: bool
) -> None:
    (name,) = trace.means()
    losses = trace.losses(name)
    counts = {"rounds": len(losses), "lost": int((losses != 0).sum()), "loss": float(losses.sum())}
    extra = facts | {"measure": name, "losses": losses.tolist()}
    show([names | counts | results], title=f"1 - {name} {title}", as_json=as_json, extra=extra)


def _play_budget(
    algorithm: str, learner: "pr.Learner", budget: int, rounds: int | None, radius: float, record: str, as_json: bool
) -> None:
    game = pr.theory.play_budget(learner, budget, rounds=rounds, radius=radius, measure=record)
    winner = "gave up" if game.is_beaten else "won"
    results = {"queries": budget + 1, "margin": game.margin, "adversary": winner}
    title = f"against the adversary of budgets, radius {radius:g}, budget {budget}"
    _show({"algorithm": algorithm}, game.trace, results, title, {"radius": radius, "budget": budget}, as_json)
    if not as_json:
        outcome = "the learner now ranks all of them correctly"
        if not game.is_beaten:
            outcome = "of one of them the learner stores no document, and it would go on losing"
        n = f"{budget + 1:,}"
        print_text(f"the mean of all {n} features ranks all {n} queries with that margin: {outcome}")


def _play_margin(algorithm: str, learner: "pr.Learner", margin: float, n_documents: int | None, as_json: bool) -> None:
    """Let a listwise perceptron learn the stream on which its margin costs it the most."""
    if not isinstance(learner, pr.ListwisePerceptron) or learner.margin is not None or learner.average:
        raise ValueError("--version margin needs listwise with a relative margin and average=false")
    if learner.transforms_:
        raise ValueError("--version margin needs raw features: leave out --transform")
    if learner.violators == "places" and pr.parse(learner.measure).cutoff is not None:
        raise ValueError("--version margin needs a measure without a cut-off if violators are weighted by places")
    rho = float(learner.relative_margin or 0.0)
    costly = pr.theory.costly_stream(
        learner.violators, relative_margin=rho, margin=margin, n_documents=n_documents, measure=learner.measure
    )
    name = str(pr.parse(learner.measure))
    trace = learner.learn(costly.stream, name)
    bound = learner.guarantee(diameter=costly.diameter, margin=costly.margin)
    names = {"algorithm": algorithm, "violators": learner.violators, "relative margin": rho}
    results = {"outranked": float(costly.n_lost), "upper bound": bound, "reached": costly.n_lost / bound}
    title = f"where a margin costs the most, diameter 1, margin {margin:g}"
    _show(names, trace, results, title, {"margin": margin, "violators": learner.violators}, as_json)
    if not as_json:
        print_text(
            "outranked: weight of outranked documents, which the theorem bounds; reached: its part of the upper bound"
        )


def _parse_comparator(text: str) -> tuple[float, float]:
    try:
        norm, loss = map(float, text.split(","))
    except ValueError:
        raise ValueError(f"--comparator must be two numbers like 10,25, norm and surrogate, got {text!r}") from None
    return norm, loss


def _upper_bound(
    learner: "pr.Learner", radius: float, game: "pr.theory.Game", measure: str, n_documents: int
) -> float | None:
    """Return what the learner's theorem allows, if it has one on the rankings that it shows, of features as sent.

    All queries have one relevant document, whose weight is 1 whatever measure is learned: so what is lost in another
    measure, which is recorded, is the share of that.
    """
    is_mean = learner.average and not learner.theorem.extra
    if learner.transforms_ or learner.theorem.surrogate is None or is_mean:  # transformed, radius and margin are others
        return None
    share = 1.0 if learner.theorem.extra else pr.theory.bounds.largest_share(measure, n_documents)
    if game.comparator is None:
        return share * learner.guarantee(radius=radius, margin=game.margin)
    diameter = radius * (2 * n_documents / (n_documents - 1)) ** 0.5
    return share * learner.guarantee(diameter=diameter, comparator=(game.comparator.norm, game.comparator.loss))
