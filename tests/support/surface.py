"""The public surface: every name that users may rely on, once, with the methods of classes."""

import dataclasses
import inspect
import re
from functools import cache
from types import ModuleType

import perceptrank as pr

# Not `pr.learners`: its names are those of `pr`, and its folder `wrappers`, once imported, hides the function.
ROOMS = (
    pr,
    pr.clicks,
    pr.deploy,
    pr.distributed,
    pr.evaluation,
    pr.io,
    pr.measures,
    pr.serve,
    pr.stream,
    pr.theory,
    pr.theory.bounds,
    pr.transforms,
)


@cache
def public():
    """Everything that a room lists, by the first of its full names; what two rooms list is the same thing."""
    found = {}
    for room in ROOMS:
        for name in room.__all__:
            found.setdefault(id(getattr(room, name)), (f"{room.__name__}.{name}", getattr(room, name)))
    return dict(found.values())


@cache
def public_callables():
    """Classes and functions of them."""
    return {
        name: value
        for name, value in public().items()
        if not isinstance(value, ModuleType) and (inspect.isclass(value) or inspect.isroutine(value))
    }


@cache
def public_methods():
    """Methods of public classes, by the classes that define them: every definition in the order of inheritance."""
    found = {}
    for kind in public_callables().values():
        for name in dir(kind) if inspect.isclass(kind) else ():
            own = [one for one in kind.__mro__ if name in vars(one) and one.__module__.startswith("perceptrank")]
            methods = [getattr(vars(one)[name], "__func__", vars(one)[name]) for one in own]
            if not name.startswith("_") and methods and inspect.isfunction(methods[0]):
                found[f"{own[0].__module__}.{own[0].__name__}.{name}"] = methods
    return found


@cache
def public_functions():
    """Functions, constructors and methods: whatever has a signature that a reader sees."""
    return public_callables() | {name: methods[0] for name, methods in public_methods().items()}


def is_record(value):
    """Tell whether constructor arguments are attributes, and documented as such."""
    return (
        dataclasses.is_dataclass(value)
        or hasattr(value, "_fields")
        or (inspect.isclass(value) and issubclass(value, BaseException))
    )


def section(docstring, title):
    """Return the text of a section of a NumPy-style docstring."""
    match = re.search(rf"^{title}\n-+\n(.*?)(?=\n\n[^\n]+\n-{{4,}}$|\Z)", docstring, re.M | re.S)
    return match.group(1) if match else ""


def documented(docstring, title):
    """Types by names in a section of a NumPy-style docstring, `a, b : type` being two of them."""
    heads = re.findall(r"^(\S[^:\n]*?)(?: : (.*))?$", section(docstring, title), re.M)
    return {name.strip().lstrip("*"): kind for names, kind in heads for name in names.split(",")}
