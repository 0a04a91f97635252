"""How the figures about streams are drawn."""

from itertools import groupby
from typing import Any

import numpy as np
from streams import EVERY
from updates import AFTER, BEFORE, FAINT, INK, document

LIGHT, DARK = "#7fbfe8", "#0a5f9e"


def lines(figure: Any, data: dict[str, Any], colours: dict[str, str], xlabel: str, ylabel: str, every: int = 1) -> Any:
    """A line for each name, and below them, if there are leaders, who led when."""
    leaders = data.get("leaders")
    axes = figure.subplots(2, 1, sharex=True, height_ratios=(8, 1)) if leaders else [figure.subplots()]
    for name, values in data.items():
        if name != "leaders":
            wide = 2.0 if colours[name] == AFTER else 1.4
            axes[0].plot(every * np.arange(len(values)), values, color=colours[name], linewidth=wide, label=name)
    if leaders:
        start = 0
        for name, run in groupby(leaders):
            stop = start + every * len(list(run))
            axes[1].axvspan(start, stop, color=colours[name], linewidth=0)
            if stop - start > 0.15 * every * len(leaders):
                axes[1].text((start + stop) / 2, 0.48, name, ha="center", va="center", color="white", fontsize=7)
            start = stop
        axes[1].set(yticks=[], ylim=(0, 1), xlim=(0, start))
        axes[1].set_ylabel("leads", rotation=0, ha="right", va="center", color=INK)
    axes[-1].set_xlabel(xlabel, color=INK)
    axes[0].set_ylabel(ylabel, color=INK)
    axes[0].legend(frameon=False)
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.spines[["bottom", "left"]].set_color(FAINT)
        one.tick_params(colors=INK, length=2)
    return axes[0]


def draw_sum(figure: Any, data: dict[str, Any]) -> None:
    """Three rankings of one query, joined by lines."""
    axes = figure.subplots()
    axes.axis("off")
    axes.set(xlim=(-0.6, 5.2), ylim=(7.3, -0.75))
    titles = (("listwise", LIGHT), ("the sum", AFTER), ("ridge", DARK))
    middle = [data["orders"][0], data["orders"][2], data["orders"][1]]
    worth = [data["ndcg"][0], data["ndcg"][2], data["ndcg"][1]]
    for column, (name, colour) in enumerate(titles):
        x = 0.4 + 1.9 * column
        axes.text(x, -0.35, name, ha="center", color=colour if column == 1 else INK, weight="bold")
        axes.text(x, 7.0, f"NDCG {worth[column]:.2f}", ha="center", color=INK, fontsize=8)
        for place, i in enumerate(middle[column]):
            if column < 2:
                ends = [place + 0.6, middle[column + 1].index(i) + 0.6]
                axes.plot([x, x + 1.9], ends, color=FAINT, linewidth=1.2, zorder=0)
            document(axes, x, place + 0.6, data["grades"][i])
            axes.text(x + 0.16, place + 0.25, "abcdef"[i], color=INK, style="italic")


def draw_transforms(figure: Any, data: dict[str, Any]) -> None:
    """A row of dots for each form of the feature, from its smallest value to its largest."""
    axes = figure.subplots()
    axes.axis("off")
    axes.set(xlim=(-0.5, 1.12), ylim=(len(data) - 0.4, -0.6))
    for row, (name, values) in enumerate(data.items()):
        low, high = min(values), max(values)
        places = (np.array(values) - low) / (high - low)
        axes.plot([0, 1], [row, row], color=FAINT, linewidth=1, zorder=0)
        axes.plot(places, np.full(len(values), row), "o", color=BEFORE if row == 0 else DARK, markersize=6, alpha=0.8)
        axes.plot(places[-1:], [row], "o", color=AFTER, markersize=6)
        axes.text(-0.17, row, name, ha="right", va="center", color=INK)
        axes.text(-0.02, row, f"{low:.3g}".replace("-", "−"), ha="right", va="center", color=INK, fontsize=7)
        axes.text(1.02, row, f"{high:.3g}", ha="left", va="center", color=INK, fontsize=7)


def draw_bins(figure: Any, data: dict[str, Any]) -> None:
    """The hats, and what is learned with them and without."""
    hats, learned = figure.subplots(1, 2)
    for number, hat in enumerate(data["hats"]):
        hats.plot(data["grid"], hat, color=(DARK, AFTER, BEFORE, LIGHT, INK)[number], linewidth=1.4)
    hats.plot(data["edges"], np.zeros(len(data["edges"])), "|", color=INK, markersize=9)
    hats.set_title("what becomes of the feature", fontsize=9, color=INK)
    learned.plot(data["grid"], data["running"], color=BEFORE, linewidth=1.4, label="running: a line")
    learned.plot(data["grid"], data["bins"], color=AFTER, linewidth=2.0, label="bins")
    learned.axvline(2.0, color=FAINT, linestyle=":")
    learned.set_title("the score that is learned", fontsize=9, color=INK)
    learned.legend(frameon=False, loc="upper right")
    for axes in (hats, learned):
        axes.set_xlabel("feature", color=INK)
        axes.set(xlim=(0, 6), yticks=[])
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["bottom", "left"]].set_color(FAINT)
        axes.tick_params(colors=INK, length=2)


def draw(figure: Any, name: str, data: dict[str, Any]) -> None:
    """Draw one of the figures."""
    if name == "sum":
        return draw_sum(figure, data)
    if name == "transforms":
        return draw_transforms(figure, data)
    if name == "bins":
        return draw_bins(figure, data)
    names = [one for one in data if one != "leaders"]
    colours = dict(zip(names[::-1], (AFTER, DARK, LIGHT, BEFORE), strict=False))
    colours |= {"as it is": BEFORE, "half-life 30": DARK, "half-life 100": LIGHT}
    angle, loss = "degrees from the target", "cumulative loss, 1 − NDCG@10"
    ylabel = angle if name in {"averaging", "fading"} else loss
    if name == "tournament":
        ylabel = "loss beyond that of the best"
    axes = lines(
        figure,
        data,
        colours,
        "query",
        ylabel,
        every={"forgetting": 4 * EVERY, "tournament": EVERY, "starting": EVERY, "trees": EVERY}.get(name, 1),
    )
    if ylabel == angle:
        axes.set(yticks=[0, 30, 60, 90], ylim=(0, 100))
    return None
