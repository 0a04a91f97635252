"""What scikit-learn asks of an estimator, without importing scikit-learn before it asks."""

import inspect
from copy import deepcopy
from typing import Any, ClassVar, Self

_NOTHING = object()


def differ(one: Any, other: Any) -> bool:
    """Whether two settings differ; arrays, which are none, do."""
    try:
        return bool(one != other)
    except ValueError:
        return True


class Estimator:
    """Parameters that can be read, set and cloned, and routing of `qid` through pipelines and searches."""

    parameter_names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.parameter_names = tuple(inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments and their values; if `deep`, those of a learner among them as well, as a__b."""
        parameters = {name: getattr(self, name) for name in self.parameter_names}
        nested = {name: value for name, value in parameters.items() if deep and isinstance(value, Estimator)}
        for outer, value in nested.items():
            parameters |= {f"{outer}__{name}": one for name, one in value.get_params().items()}
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Change constructor arguments; if one is wrong, none is changed."""
        parameters = self._with_nested(parameters)
        unknown = [name for name in parameters if name not in self.parameter_names]
        if unknown:
            raise ValueError(
                f"{type(self).__name__} has no parameter {', '.join(map(repr, unknown))}; "
                f"it has {', '.join(self.parameter_names)}"
            )
        self._check_change(parameters)
        before = {name: getattr(self, name) for name in parameters}
        try:
            for name, value in parameters.items():
                object.__setattr__(self, name, value)
            self._check_parameters()
        except BaseException:
            for name, value in before.items():
                object.__setattr__(self, name, value)
            raise
        self._parameters_changed(parameters)
        return self

    def _with_nested(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Arguments of learners among the arguments, a__b, as new learners, which differ from the old ones in those."""
        own = {name: value for name, value in parameters.items() if "__" not in name}
        for name, value in parameters.items():
            outer, separator, inner = name.partition("__")
            if not separator:
                continue
            one = own.get(outer, getattr(self, outer, None))
            if not inner or not isinstance(one, Estimator):
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}")
            if differ(one.get_params().get(inner, _NOTHING), value):
                own[outer] = type(one)(**one.get_params(deep=False)).set_params(**{inner: value})
        return own

    def _check_change(self, parameters: dict[str, Any]) -> None:
        """Hook: raise if these parameters cannot be changed any more."""

    def _parameters_changed(self, parameters: dict[str, Any]) -> None:
        """Hook: these parameters were set, and are right."""

    def _check_parameters(self) -> None:
        """Raise if a parameter is wrong."""

    def __repr__(self) -> str:
        defaults = {name: one.default for name, one in inspect.signature(type(self)).parameters.items()}
        changed = {name: value for name, value in self.get_params(deep=False).items() if value != defaults[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True, positive_only=True),
            transformer_tags=None,
            classifier_tags=None,
            regressor_tags=None,
            input_tags=InputTags(),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def get_metadata_routing(self) -> Any:
        """Which metadata each method takes: `qid`, unless a `set_…_request` said otherwise."""
        from sklearn.utils.metadata_routing import MetadataRequest

        kept = getattr(self, "_metadata_request", None)
        if kept is not None:
            return deepcopy(kept)
        request = MetadataRequest(owner=type(self).__name__)
        for method in ("fit", "partial_fit", "predict", "score"):
            getattr(request, method).add_request(param="qid", alias=True)
        request.score.add_request(param="sample_weight", alias=None)  # pipelines always offer it
        return request

    def set_fit_request(self, *, qid: bool | str | None) -> Self:
        """Whether, or under which name, `fit` is given `qid` by scikit-learn's metadata routing."""
        return self._request("fit", qid)

    def set_partial_fit_request(self, *, qid: bool | str | None) -> Self:
        """Whether, or under which name, `partial_fit` is given `qid` by scikit-learn's metadata routing."""
        return self._request("partial_fit", qid)

    def set_predict_request(self, *, qid: bool | str | None) -> Self:
        """Whether, or under which name, `predict` is given `qid` by scikit-learn's metadata routing."""
        return self._request("predict", qid)

    def set_score_request(self, *, qid: bool | str | None) -> Self:
        """Whether, or under which name, `score` is given `qid` by scikit-learn's metadata routing."""
        return self._request("score", qid)

    def _request(self, method: str, alias: bool | str | None) -> Self:
        request = self.get_metadata_routing()
        getattr(request, method).add_request(param="qid", alias=alias)
        self._metadata_request = request
        return self
