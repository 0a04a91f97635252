"""Docstrings of the public surface: they document every parameter, also what a class inherits, and every result."""

import importlib
import inspect
import pkgutil
import re
import sys

import pytest
from support.surface import documented, is_record, public_callables, public_functions, public_methods, section

import perceptrank as pr

_SAME_PARAMETERS = re.compile(r"[Pp]arameters\s+are\s+those\s+of\s+`(\w+)`")  # which documents what means the same
_QUESTION = re.compile(r"(What|How|Whether|Who|Where|Which|When)\b")
_WORDS = {  # of the type in a docstring, for annotations that are a single type
    "bool": r"bool",
    "int": r"int",
    "float": r"float|int|number",
    "str": r'str|path|"|name',
}


def own_parameters(value):
    """Parameters by name, without `self` and those that are private; none of a protocol, or a class written in C."""
    if getattr(value, "_is_protocol", False):
        return {}
    try:
        parameters = inspect.signature(value).parameters
    except ValueError:
        return {}
    return {name: one for name, one in parameters.items() if not name.startswith("_") and name not in ("self", "cls")}


def written(value):
    """Return the docstring of a function or class, without the indentation; it must have one."""
    assert value.__doc__, f"{value.__qualname__} has no docstring"
    return inspect.cleandoc(value.__doc__)


def neighbour(value, name):
    """Return the public function of that name; else the one that stands in the same class or module."""
    module = sys.modules[value.__module__]
    places = (pr, getattr(module, value.__qualname__.partition(".")[0]), module)
    return next(getattr(place, name) for place in places if hasattr(place, name))


def check_parameters(name, value):
    docstring = written(value)
    names = documented(docstring, "Parameters") | documented(docstring, "Attributes")
    odd = [one for one in names if not one.isidentifier()]
    assert not odd, f"{name} has something else among its parameters: {odd}"
    known = names if is_record(value) else documented(docstring, "Parameters")
    if other := _SAME_PARAMETERS.search(docstring):
        known |= documented(written(neighbour(value, other[1])), "Parameters")
    if inspect.isfunction(value) and "." in value.__qualname__:  # those of many methods are in the class's notes
        owner = getattr(sys.modules[value.__module__], value.__qualname__.partition(".")[0], None)
        for base in getattr(owner, "__mro__", ()):
            for names in re.findall(r"^- (`.*`):", inspect.cleandoc(base.__doc__ or ""), re.M):
                known |= dict.fromkeys(re.findall(r"`(\w+)`", names), "")
    missing = [parameter for parameter in own_parameters(value) if parameter not in known]
    assert not missing, f"{name} does not document {', '.join(missing)}"
    extra = set(documented(docstring, "Parameters")) - set(own_parameters(value))
    assert not extra or inspect.isabstract(value), f"{name} documents {', '.join(extra)}, which it does not take"


def check_result(name, function):
    """The annotation says the type; a section says more where there is more to say."""
    returned = inspect.signature(function).return_annotation
    assert returned is not inspect.Signature.empty, f"{name} does not say what it returns"


@pytest.mark.parametrize("name", public_callables())
def test_functions_and_constructors_are_documented_where_they_stand(name):
    value = public_callables()[name]
    check_parameters(name, value)
    if not inspect.isclass(value):
        check_result(name, value)


@pytest.mark.parametrize("name", public_methods())
def test_methods_are_documented_where_they_stand_or_where_they_are_declared(name):
    definitions = public_methods()[name]
    documented_in = [method for method in definitions if section(inspect.cleandoc(method.__doc__ or ""), "Parameters")]
    first = documented_in[0] if documented_in else next((one for one in definitions if one.__doc__), definitions[0])
    check_parameters(name, first)
    check_result(name, first)


@pytest.mark.parametrize("name", public_functions())
def test_types_in_docstrings_are_those_of_signatures(name):
    value = public_functions()[name]
    kinds = documented(inspect.cleandoc(value.__doc__ or ""), "Parameters")
    for parameter, one in own_parameters(value).items():
        kind = kinds.get(parameter)
        annotation = one.annotation if isinstance(one.annotation, str) else inspect.formatannotation(one.annotation)
        simple, _, rest = annotation.partition(" | ")
        if not kind or rest not in ("", "None") or one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL):
            continue
        if simple in _WORDS:
            assert re.search(_WORDS[simple], kind), f"{name}: {parameter} is {annotation}, documented as {kind}"
        if rest == "None" and one.default is None:
            assert re.search("optional|None", kind), f"{name}: {parameter} may be None, documented as {kind}"


@pytest.mark.parametrize("name", public_functions())
def test_signatures_show_short_names_of_types(name):
    try:
        shown = inspect.signature(public_functions()[name])
    except ValueError:
        return
    assert not re.search(r"_typing|ndarray\[", str(shown)), shown


def test_functions_and_what_users_construct_have_examples():
    bases = (pr.Learner, pr.Transform, pr.Measure, pr.Surrogate)
    lacking = [
        name
        for name, value in public_callables().items()
        if (not inspect.isclass(value) or issubclass(value, bases))
        and value is not pr.CompiledLearner  # docs/learners/your-own.md has one
        and not re.search(">>> |```python", written(value))
    ]
    assert not lacking, lacking


def test_a_missing_parameter_is_noticed():
    docstring = "Add.\n\nParameters\n----------\na, b : float\n    Summands.\n*rest : float\n\nReturns\n-------\nfloat"
    assert documented(docstring, "Parameters") == {"a": "float", "b": "float", "rest": "float"}
    assert documented("Add a and b.", "Parameters") == {}


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
    odd += [name for name, value in public_functions().items() if re.search(r"^ +As for `", value.__doc__ or "", re.M)]
    assert not odd, "\n".join(odd)


def test_examples_and_references_have_headings():
    """Without one, they would be taken for parameters."""
    odd = []
    for place, text in all_docstrings():
        lines = inspect.cleandoc(text or "").splitlines()
        sections = [number for number, line in enumerate(lines) if re.fullmatch("-{4,}", line)]
        first = next((number for number, line in enumerate(lines) if line.startswith(">>> ")), None)
        if sections and first is not None and not any(lines[one - 1] == "Examples" and one < first for one in sections):
            odd.append(place)
        if sections and re.search(r"^References?\b.*:", "\n".join(lines[sections[0] :]), re.M):
            odd.append(place)
    assert not odd, odd
