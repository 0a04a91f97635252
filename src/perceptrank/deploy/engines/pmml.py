"""A regression model of PMML, the Predictive Model Markup Language."""

import re
from dataclasses import dataclass
from typing import Any, TypeAlias
from xml.etree import ElementTree as ET

from perceptrank.deploy.additive import Additive, ScoreCurve
from perceptrank.deploy.engines.programs import run_harness
from perceptrank.deploy.target import Filled, FilledTerm, FillingTarget
from perceptrank.kernels.arrays import Floats
from perceptrank.stream.validation import ParameterError

SPACE = "http://www.dmg.org/PMML-4_4"
_CONTINUOUS = {"optype": "continuous", "dataType": "double"}
_NOT_IN_XML = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

Expression: TypeAlias = str | float | tuple[Any, ...]  # a field, a number, or a function and what it is applied to


@dataclass(frozen=True, kw_only=True)
class PmmlModel(FillingTarget):
    """A `RegressionModel` of PMML 4.4 in double precision, whose output field is the score.

    Of bins, it is one of derived fields: `Discretize`, or `NormContinuous` for hats.

    Parameters
    ----------
    model_name : str
        Name of the model.
    score : str
        Name of the output field.
    """

    name, engine_name, artefact = "pmml", "JPMML evaluator {}", "pmml-evaluator"

    model_name: str = "perceptrank"
    score: str = "score"

    def __post_init__(self) -> None:
        for option in ("model_name", "score"):
            value = getattr(self, option)
            if not isinstance(value, str) or not value or _NOT_IN_XML.search(value):
                raise ParameterError(self.option(option), "must be a name without control characters", value)

    def write(self, model: Additive | Filled) -> tuple[str, list[str]]:
        self._check_names(model.used)
        derived = ET.Element("LocalTransformations")
        if isinstance(model, Additive):
            coefficients = [(self._add_curve(derived, curve, model), 1.0) for curve in model.curves]
        else:
            coefficients = [(self._add_field(derived, term, model), term.weight) for term in model.terms]
            for number, tree in enumerate(_trees(model), len(derived)):
                coefficients.append((self._derive(derived, f"tree({number})", model, tree), 1.0))
        missing = "a feature that is missing makes the result invalid: the model has learned from none"
        if model.takes_missing:
            missing = "a missing feature counts as what the model takes for it"
        notes = [f"the output field {self.score!r} is the score of a document", missing]
        return self._document(model, derived, coefficients), notes

    def _check_names(self, names: tuple[str, ...]) -> None:
        for name in names:
            if not name.strip() or name != name.strip() or _NOT_IN_XML.search(name):
                raise ValueError(
                    f"PMML cannot hold a feature called {name!r}: a name has no control characters, and no spaces at "
                    "its ends; rename the feature"
                )
        if self.score in names:
            raise ValueError(f"a feature is called {self.score!r}, as the output: set the option score of pmml")

    def _document(self, model: Additive | Filled, derived: ET.Element, coefficients: list[tuple[str, float]]) -> str:
        document = ET.Element("PMML", {"xmlns": SPACE, "version": "4.4"})
        header = ET.SubElement(document, "Header")
        ET.SubElement(header, "Application", {"name": "perceptrank"})
        fields = ET.SubElement(document, "DataDictionary", {"numberOfFields": str(len(model.used))})
        for name in model.used:
            ET.SubElement(fields, "DataField", {"name": name, **_CONTINUOUS})
        how = {"functionName": "regression", "algorithmName": model.algorithm, "normalizationMethod": "none"}
        regression = ET.SubElement(document, "RegressionModel", {"modelName": self.model_name, **how})
        schema = ET.SubElement(regression, "MiningSchema")
        for name, treatment in _treatments(model).items():
            ET.SubElement(schema, "MiningField", {"name": name, "usageType": "active", **treatment})
        output = ET.SubElement(regression, "Output")
        ET.SubElement(output, "OutputField", {"name": self.score, **_CONTINUOUS, "feature": "predictedValue"})
        if len(derived):
            regression.append(derived)
        table = ET.SubElement(regression, "RegressionTable", {"intercept": repr(model.bias)})
        for name, weight in coefficients:
            ET.SubElement(table, "NumericPredictor", {"name": name, "coefficient": repr(weight)})
        ET.indent(document)
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(document, encoding="unicode")}\n'

    def _add_derived(self, derived: ET.Element, name: str, names: tuple[str, ...]) -> ET.Element:
        """Add a field that is computed, by a name that no other field has."""
        while name in names or name == self.score:
            name += "_"
        return ET.SubElement(derived, "DerivedField", {"name": name, **_CONTINUOUS})

    def _derive(self, derived: ET.Element, name: str, model: Additive | Filled, expression: Expression) -> str:
        """Add a field with the value of an expression; return its name."""
        field = self._add_derived(derived, name, model.used)
        _add_expression(field, expression)
        return field.attrib["name"]

    def _add_field(self, derived: ET.Element, term: FilledTerm, filled: Filled) -> str:
        value = _value(term, filled)
        if term.offset:
            value = ("-", value, term.offset)
        if value == term.name:
            return term.name
        what = "missing" if term.is_indicator else "shifted"
        return self._derive(derived, f"{what}({term.name})", filled, value)

    def _add_curve(self, derived: ET.Element, curve: ScoreCurve, additive: Additive) -> str:
        """Return the field that is what a feature adds to the score, and derive it."""
        source = curve.name
        if curve.before:
            value: Expression = curve.name
            for mean, inverse in curve.before:
                value = ("*", ("-", value, mean), inverse)
            source = self._derive(derived, f"scaled({curve.name})", additive, value)
        field = self._add_derived(derived, f"curve({curve.name})", additive.used)
        _add_curve(field, source, curve, has_steps=additive.has_steps)
        return field.attrib["name"]

    def run(self, model: Additive | Filled, text: str, columns: Any) -> Floats:
        if self.score != "score":
            raise ValueError(f"parity with pmml needs score='score', got {self.score!r}")
        return run_harness(str(self.harness), {"model.pmml": text}, list(model.used), columns, missing="")


def _value(term: FilledTerm, filled: Filled) -> Expression:
    """Return the value that a weight is of, from which the offset is not subtracted yet."""
    if term.is_indicator:
        return ("if", ("isMissing", term.name), 1.0, 0.0)
    if filled.has_indicators:
        return ("if", ("isMissing", term.name), float(term.fill or 0.0), term.name)
    return term.name


def _trees(filled: Filled) -> list[Expression]:
    def leaf(value: float) -> Expression:
        return value

    def split(feature: int, threshold: float, left: Expression, right: Expression) -> Expression:
        return ("if", ("lessOrEqual", _value(filled.terms[feature], filled), threshold), left, right)

    return [] if filled.forest is None else filled.forest.nested(leaf, split)


def _treatments(model: Additive | Filled) -> dict[str, dict[str, str]]:
    """Return what becomes of a missing value of each field.

    Where an indicator asks whether it is missing, it must stay so until then.
    """
    if isinstance(model, Additive) or not model.takes_missing:
        return {name: {"missingValueTreatment": "returnInvalid"} for name in model.used}
    if model.has_indicators:
        return {name: {"missingValueTreatment": "asIs"} for name in model.used}
    return {
        term.name: {"missingValueTreatment": "asValue", "missingValueReplacement": repr(term.fill)}
        for term in model.terms
    }


def _add_expression(parent: ET.Element, expression: Expression) -> None:
    if isinstance(expression, str):
        ET.SubElement(parent, "FieldRef", {"field": expression})
    elif isinstance(expression, float):
        ET.SubElement(parent, "Constant", {"dataType": "double"}).text = repr(expression)
    else:
        function, *arguments = expression
        applied = ET.SubElement(parent, "Apply", {"function": function})
        for argument in arguments:
            _add_expression(applied, argument)


def _add_curve(parent: ET.Element, source: str, curve: ScoreCurve, *, has_steps: bool) -> None:
    """Add what a feature adds to the score: intervals, which have their upper edge, or lines between edges."""
    if not has_steps:
        lines = ET.SubElement(parent, "NormContinuous", {"field": source, "outliers": "asExtremeValues"})
        for edge, height in zip(curve.edges, curve.heights, strict=True):
            ET.SubElement(lines, "LinearNorm", {"orig": repr(edge), "norm": repr(height)})
        return
    bins = ET.SubElement(parent, "Discretize", {"field": source})
    margins = [{"rightMargin": repr(edge)} for edge in curve.edges] + [{}]
    for place, height in enumerate(curve.heights):
        left = {"leftMargin": repr(curve.edges[place - 1])} if place else {}
        interval = ET.SubElement(bins, "DiscretizeBin", {"binValue": repr(height)})
        closure = "openClosed" if margins[place] else "openOpen"
        ET.SubElement(interval, "Interval", {"closure": closure, **left, **margins[place]})
