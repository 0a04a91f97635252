"""Results as plain data, for results.json."""

from dataclasses import asdict
from typing import Any

import numpy as np

from perceptrank.kernels.arrays import Floats
from perceptrank.paper.clicks_walk import Shop
from perceptrank.paper.contenders import CONTENDERS, MEASURES, RATES
from perceptrank.paper.curves import means_by_rate
from perceptrank.paper.reproduction import Reproduction, StreamResult, mean_of_folds
from perceptrank.paper.trials import Trials, Tuned, first_tenth
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
            "transform": settings.transform,
            "order": settings.order,
            "passes": settings.passes,
            "ties": "worst",
            "empty": "skip",
        },
        "streams": [_stream(stream) for stream in result.streams],
        "folds": [
            {
                "set": name,
                "folds": [stream.trials.source.name for stream in streams],
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
        "clicks": _clicks(result.shop),
        "left_out": [asdict(file) for file in result.left_out],
        "figures": [_pick(chart, "name", "title", "caption", "about") for chart in result.charts],
    }


def _pick(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _clicks(shop: Shop) -> dict[str, Any]:
    """Rankings of the followed query, products in the order of today's ranker, and two learners' losses."""
    return {
        "losses": {name: rows.tolist() for name, rows in shop.losses.items()},
        "grades": shop.moments[0].grades.tolist(),
        "moments": [
            _pick(moment, "n_lists", "shown")
            | {"clicked": moment.clicked.tolist()}
            | {"ranked": {name: moment.ranked(name).tolist() for name in moment.scores}}
            for moment in shop.moments
        ],
    }


def _walkthrough(walk: Walkthrough) -> dict[str, Any]:
    """The rounds that the page opens with; documents are in the order of the query, rankings are of their numbers."""
    return {
        "comparator": walk.ranker.tolist(),
        "margin": walk.margin,
        "rounds": [
            {
                "documents": shown.X.tolist(),
                "grades": shown.grades.tolist(),
                "weights": shown.before.tolist(),
                "weights_after": shown.after.tolist(),
                "ranked": shown.ranked.tolist(),
                "ranked_again": shown.ranked_again.tolist(),
                "moves": shown.moves.tolist(),
                **_pick(shown, "ndcg", "ndcg_again"),
            }
            for shown in walk.rounds
        ],
    }


def _stream(result: StreamResult) -> dict[str, Any]:
    trials, source = result.trials, result.trials.source
    plain: dict[str, Any] = {
        "name": source.name,
        "about": source.about,
        "facts": source.facts,
        "transform": source.transform,
        "passes": source.passes,
        "rounds": source.n_rounds,
        "seeds": list(trials.seeds),
        "rounds_that_rates_are_chosen_on": first_tenth(source.n_rounds),
        "measures": {
            measure: [_tuned(trials, learner, measure) for learner in tuned] for measure, tuned in result.tuned.items()
        },
        "depends_on_rate": result.depends,
    }
    if (simulated := result.simulated) is not None:
        plain |= {"radius": simulated.radii, "diameter": simulated.diameters, "weight_ratio": simulated.weight_ratio}
        plain["bounds"] = [
            {
                "learner": check.contender.label,
                "rate": check.run.rate,
                "formula": check.formula,
                "bound": check.bounds,
                "loss": _over(check.losses),
                "loss_in_second_half": check.second_half.tolist(),
                "last_loss_at_query": check.last_losses,
                "holds": check.holds,
            }
            for check in simulated.bound_checks
        ]
    return plain


def _tuned(trials: Trials, tuned: Tuned, measure: str) -> dict[str, Any]:
    contender = tuned.contender
    by_rate = means_by_rate(trials, contender.name, measure)
    return {
        "learner": contender.name,
        "label": contender.label,
        "hindsight": {"rate": tuned.hindsight.rate if contender.has_rate else None, **_over(tuned.whole)},
        "hindsight_after_first_tenth": _over(tuned.rest),
        "honest_after_first_tenth": {"rates": tuned.honest_rates, **_over(tuned.honest_rest)},
        "rate_at_the_edge": tuned.is_at_the_edge,
        "by_rate": [{"rate": rate, **_over(by_rate[:, k])} for k, rate in enumerate(RATES)],
    }


def _over(values: Floats, what: str = "per_seed") -> dict[str, Any]:
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": float(values.mean()), "spread": spread, what: values.tolist()}
