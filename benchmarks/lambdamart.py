"""LambdaMART of LightGBM and XGBoost with default settings, on one thread, as rankers that `pr.evaluate` takes."""

from collections.abc import Callable
from typing import Any

import numpy as np

import perceptrank as pr


class _Trees:
    def __init__(self, model: Any) -> None:
        self._model = model

    def scores(self, stream: pr.QueryStream) -> np.ndarray:
        return np.asarray(self._model.predict(np.asarray(stream.X)), np.float64)


def fit_lightgbm(train: pr.QueryStream, **settings: Any) -> _Trees:
    import lightgbm

    model = lightgbm.LGBMRanker(n_jobs=1, verbose=-1, **settings)
    return _fitted(model, train)


def fit_xgboost(train: pr.QueryStream) -> _Trees:
    import xgboost

    model = xgboost.XGBRanker(n_jobs=1)
    return _fitted(model, train)


def _fitted(model: Any, train: pr.QueryStream) -> _Trees:
    """Both take whole grades only."""
    model.fit(np.asarray(train.X), np.rint(train.relevance).astype(int), group=np.diff(train.offsets))
    return _Trees(model)


FITTERS: dict[str, Callable[[pr.QueryStream], _Trees]] = {
    "LambdaMART, LightGBM": fit_lightgbm,
    "LambdaMART, XGBoost": fit_xgboost,
}
