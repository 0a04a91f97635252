"""Constructor arguments as parameters that can be read, set and checked."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

_NOTHING = object()


def differ(one: Any, other: Any) -> bool:
    """Tell whether two settings differ; two arrays always do."""
    if one is other:
        return False
    try:
        return bool(one != other)
    except ValueError:
        return True


class Parameter:
    """A constructor argument: stored like any attribute, and checked when it is set on a finished object."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __set__(self, owner: Parameterized, value: Any) -> None:
        if owner._is_finished():
            owner.set_params(**{self.name: value})
        else:
            owner.__dict__[self.name] = value


class Parameterized(ABC):
    """An object whose constructor arguments are attributes of the same names; scikit-learn's get and set protocol."""

    parameter_names: ClassVar[tuple[str, ...]] = ()
    shared_parameters: ClassVar[tuple[str, ...]] = ()  # that a constructor takes as keywords, None by default

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.parameter_names = tuple(_defaults(cls))
        for name in cls.parameter_names:
            setattr(cls, name, Parameter(name))

    @abstractmethod
    def _is_finished(self) -> bool:
        """Tell whether the constructor has run to its end."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments and their values.

        Parameters
        ----------
        deep : bool
            Return those of a nested learner as well; a parameter b of a nested learner a is named ``a__b``.

        Returns
        -------
        dict of str to value
        """
        parameters = {name: getattr(self, name) for name in self.parameter_names}
        nested = {name: value for name, value in parameters.items() if deep and isinstance(value, Parameterized)}
        for outer, value in nested.items():
            parameters |= {f"{outer}__{name}": one for name, one in value.get_params().items()}
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Set constructor arguments; if one is invalid, none is changed.

        Parameters
        ----------
        **parameters : any
            Arguments by name; ``a__b`` is the parameter b of a nested learner a.

        Returns
        -------
        Learner
            Itself.

        Raises
        ------
        ValueError
            If there is no such parameter, its value is invalid, or it cannot change once something was learned.
        """
        parameters = self._with_nested(parameters)
        unknown = [name for name in parameters if name not in self.parameter_names]
        if unknown:
            raise ValueError(
                f"{type(self).__name__} has no parameter {', '.join(map(repr, unknown))}; "
                f"it has {', '.join(self.parameter_names)}"
            )
        self._check_change(parameters)
        before = dict(self.__dict__)
        try:
            self.__dict__.update(parameters)
            self._check_parameters()
            self._parameters_changed(parameters)
        except BaseException:
            self.__dict__.update(before)
            raise
        return self

    def _with_nested(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Replace arguments a__b of a nested learner a by a copy of it with these arguments."""
        own = {name: value for name, value in parameters.items() if "__" not in name}
        for name, value in parameters.items():
            outer, separator, inner = name.partition("__")
            if not separator:
                continue
            one = own.get(outer, getattr(self, outer, None))
            if not inner or not isinstance(one, Parameterized):
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}")
            if differ(one.get_params().get(inner, _NOTHING), value):
                own[outer] = type(one)(**one.get_params(deep=False)).set_params(**{inner: value})
        return own

    def _check_change(self, parameters: dict[str, Any]) -> None:
        """Raise if these parameters cannot be changed any more."""

    def _parameters_changed(self, parameters: dict[str, Any]) -> None:
        """Update whatever depends on these parameters, which were set and are valid."""

    def _check_parameters(self) -> None:
        """Raise if a parameter is invalid."""

    def __repr__(self) -> str:
        defaults = _defaults(type(self))
        changed = {name: value for name, value in self.get_params(deep=False).items() if differ(value, defaults[name])}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"


def _defaults(kind: type[Parameterized]) -> dict[str, Any]:
    """Return the parameters of a class and their defaults, those of a shared group that it takes (**start) too."""
    defaults: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            defaults |= dict.fromkeys(kind.shared_parameters)
        else:
            defaults[name] = parameter.default
    return defaults
