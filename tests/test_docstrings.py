"""Docstrings of the public surface: every parameter documented where it stands, in the field's English."""

import dataclasses
import importlib
import inspect
import pkgutil
import re

import pytest

import perceptrank as pr

_QUESTION = re.compile(r"(What|How|Whether|Who|Where|Which|When)\b")


def public_callables():
    """Classes and functions that users call, by their full names."""
    rooms = [pr, pr.theory, pr.theory.bounds, pr.learners, pr.measures]
    found = {f"{room.__name__}.{name}": getattr(room, name) for room in rooms for name in room.__all__}
    return {name: value for name, value in found.items() if inspect.isclass(value) or inspect.isroutine(value)}


def documented(docstring, section):
    """Names in a section of a NumPy-style docstring, `a, b : type` being two of them."""
    match = re.search(rf"^{section}\n-+\n(.*?)(?=\n\n\S|\Z)", docstring, re.M | re.S)
    heads = re.findall(r"^(\S[^:\n]*)", match.group(1), re.M) if match else []
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def own_parameters(value):
    try:
        return [name.lstrip("*") for name in inspect.signature(value).parameters]
    except ValueError:  # a class without a constructor of its own, written in C
        return []


def is_record(value):
    """Tell whether constructor arguments are attributes, and documented as such."""
    return (
        dataclasses.is_dataclass(value)
        or hasattr(value, "_fields")
        or (inspect.isclass(value) and issubclass(value, BaseException))
    )


@pytest.mark.parametrize("name", public_callables())
def test_every_parameter_is_documented_where_it_stands(name):
    value = public_callables()[name]
    docstring = inspect.cleandoc(value.__doc__)
    names = documented(docstring, "Parameters") | (documented(docstring, "Attributes") if is_record(value) else set())
    missing = [parameter for parameter in own_parameters(value) if parameter not in names]
    assert not missing, f"{name} does not document {', '.join(missing)}"
    extra = documented(docstring, "Parameters") - set(own_parameters(value))
    assert not extra, f"{name} documents {', '.join(extra)}, which it does not take"


def test_a_missing_parameter_is_noticed():
    docstring = "Add.\n\nParameters\n----------\na, b : float\n    Summands.\n*rest : float\n\nReturns\n-------\nfloat"
    assert documented(docstring, "Parameters") == {"a", "b", "rest"}
    assert documented("Add a and b.", "Parameters") == set()


def all_docstrings():
    """Every docstring that is written in the package, by where it stands."""
    for module in pkgutil.walk_packages(pr.__path__, "perceptrank."):
        owner = importlib.import_module(module.name)
        yield module.name, owner.__doc__
        own = {name: value for name, value in vars(owner).items() if getattr(value, "__module__", "") == module.name}
        for name, value in own.items():
            yield f"{module.name}.{name}", getattr(value, "__doc__", None)
            for attribute, member in vars(value).items() if inspect.isclass(value) else ():
                if inspect.isroutine(member) or isinstance(member, property):
                    yield f"{module.name}.{name}.{attribute}", member.__doc__


def test_docstrings_start_with_a_verb_or_a_noun_of_the_field():
    odd = [place for place, text in all_docstrings() if text and _QUESTION.match(text.strip())]
    assert not odd, "\n".join(odd)


def test_no_docstring_refers_to_another_for_its_parameters():
    odd = [place for place, text in all_docstrings() if text and re.search(r"\b[Aa]s in `", text)]
    assert not odd, "\n".join(odd)
