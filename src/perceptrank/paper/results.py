"""Results as plain data, for results.json."""

from typing import Any

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.paper.contenders import CONTENDERS, MEASURES, RATES
from perceptrank.paper.curves import means_by_rate
from perceptrank.paper.reproduction import Reproduction, StreamResult, mean_of_folds
from perceptrank.paper.trials import Trials
from perceptrank.paper.tuning import Tuned, first_tenth
from perceptrank.paper.walkthrough import Walkthrough


def as_plain(result: Reproduction) -> dict[str, Any]:
    """Convert all results to JSON types. The same settings give the same numbers."""
    settings = result.settings
    return {
        "format": "perceptrank-results",
        "version": 2,
        "command": settings.command,
        "settings": {
            "quick": settings.quick,
            "seeds": settings.seeds,
            "rates": RATES,
            "scaling": settings.scaling,
            "order": settings.order,
            "passes": settings.passes,
            "ties": "worst",
            "empty": "skip",
        },
        "streams": [_stream(one) for one in result.streams],
        "folds": [
            {
                "set": name,
                "folds": [one.trials.source.name for one in streams],
                "honest_after_first_tenth": {
                    measure: {
                        learner: _over(mean_of_folds(streams, measure, learner), "per_fold") for learner in CONTENDERS
                    }
                    for measure in MEASURES
                },
            }
            for name, streams in result.folds.items()
        ],
        "walkthrough": _walkthrough(result.walkthrough),
        "left_out": [{"name": one.name, "reason": one.reason} for one in result.left_out],
        "figures": [
            {"name": one.name, "title": one.title, "caption": one.caption, "about": one.about} for one in result.charts
        ],
    }


def _walkthrough(walk: Walkthrough) -> dict[str, Any]:
    """The rounds that the page opens with; documents are in the order of the query, rankings are of their numbers."""
    return {
        "comparator": walk.ranker.tolist(),
        "margin": walk.margin,
        "rounds": [
            {
                "documents": one.X.tolist(),
                "grades": one.grades.tolist(),
                "weights": one.before.tolist(),
                "weights_after": one.after.tolist(),
                "ranked": one.ranked.tolist(),
                "ranked_again": one.ranked_again.tolist(),
                "moves": one.moves.tolist(),
                "ndcg": one.ndcg,
                "ndcg_again": one.ndcg_again,
            }
            for one in walk.rounds
        ],
    }


def _stream(result: StreamResult) -> dict[str, Any]:
    trials, source = result.trials, result.trials.source
    plain: dict[str, Any] = {
        "name": source.name,
        "about": source.about,
        "facts": source.facts,
        "scaling": source.scaling,
        "passes": source.passes,
        "rounds": source.n_rounds,
        "seeds": list(trials.seeds),
        "rounds_that_rates_are_chosen_on": first_tenth(source.n_rounds),
        "measures": {
            measure: [_tuned(trials, one, measure) for one in tuned] for measure, tuned in result.tuned.items()
        },
        "depends_on_rate": result.depends,
    }
    if result.simulated is not None:
        one = result.simulated
        plain |= {"radius": one.radii, "diameter": one.diameters, "weight_ratio": one.weight_ratio}
        plain["bounds"] = [
            {
                "learner": check.label,
                "rate": check.run.rate,
                "formula": check.formula,
                "bound": check.bounds,
                "loss": _summary(check.losses),
                "loss_in_second_half": check.second_half.tolist(),
                "last_loss_at_query": check.last_losses,
                "holds": check.holds,
            }
            for check in one.bound_checks
        ]
    return plain


def _tuned(trials: Trials, one: Tuned, measure: str) -> dict[str, Any]:
    by_rate = means_by_rate(trials, one.contender.name, measure)
    plain: dict[str, Any] = {
        "learner": one.contender.name,
        "label": one.contender.label,
        "hindsight": {"rate": one.hindsight.rate if one.contender.has_rate else None, **_summary(one.whole)},
        "hindsight_after_first_tenth": _summary(one.rest),
        "honest_after_first_tenth": {"rates": one.honest_rates, **_summary(one.honest_rest)},
        "rate_at_the_edge": one.is_at_the_edge,
        "by_rate": [{"rate": rate, **_summary(by_rate[:, k])} for k, rate in enumerate(RATES)],
    }
    return plain


def _summary(values: Floats) -> dict[str, Any]:
    return _over(values, "per_seed")


def _over(values: Floats, what: str) -> dict[str, Any]:
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": float(values.mean()), "spread": spread, what: values.tolist()}
