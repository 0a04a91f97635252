"""A regression model of PMML, the Predictive Model Markup Language."""

import re
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

from perceptrank.deploy.additive import Additive, ScoreCurve
from perceptrank.deploy.engines.programs import run_harness
from perceptrank.deploy.folding import Term
from perceptrank.deploy.target import Filled, FillingTarget, Input
from perceptrank.kernels.arrays import Floats

SPACE = "http://www.dmg.org/PMML-4_4"
_CONTINUOUS = {"optype": "continuous", "dataType": "double"}
_INVALID = {"missingValueTreatment": "returnInvalid"}
_NOT_IN_XML = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


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
                raise ValueError(
                    f"{option} of the target pmml must be a name without control characters, got {value!r}"
                )

    def write(self, filled: Filled) -> tuple[str, list[str]]:
        derived, coefficients = ET.Element("LocalTransformations"), []
        self._check_names(filled.used)
        for source, term in zip(filled.inputs, filled.folded.terms(), strict=True):
            coefficients.append((self._add_field(derived, source, term, filled), term.weight))
        folded = filled.folded
        text = self._document(_treatments(filled), folded.algorithm, folded.bias, derived, coefficients)
        return text, self._notes(takes_missing=filled.takes_missing)

    def write_curves(self, additive: Additive) -> tuple[str, list[str]]:
        derived, coefficients = ET.Element("LocalTransformations"), []
        self._check_names(additive.used)
        for curve in additive.curves:
            source = curve.name
            if curve.before:
                source = self._derived_name(f"scaled({curve.name})", additive.used)
                field = ET.SubElement(derived, "DerivedField", {"name": source, **_CONTINUOUS})
                _add_scaled(field, curve.name, curve.before)
            name = self._derived_name(f"curve({curve.name})", additive.used)
            field = ET.SubElement(derived, "DerivedField", {"name": name, **_CONTINUOUS})
            _add_curve(field, source, curve, has_steps=additive.has_steps)
            coefficients.append((name, 1.0))
        treatments = dict.fromkeys(additive.used, _INVALID)
        text = self._document(treatments, additive.algorithm, additive.bias, derived, coefficients)
        return text, self._notes(takes_missing=False)

    def _check_names(self, names: tuple[str, ...]) -> None:
        for name in names:
            if not name.strip() or name != name.strip() or _NOT_IN_XML.search(name):
                raise ValueError(
                    f"PMML cannot hold a feature called {name!r}: a name has no control characters, and no spaces at "
                    "its ends; rename the feature"
                )
        if self.score in names:
            raise ValueError(f"a feature is called {self.score!r}, as the output: set the option score of pmml")

    def _document(
        self,
        treatments: dict[str, dict[str, str]],
        algorithm: str,
        intercept: float,
        derived: ET.Element,
        coefficients: list[tuple[str, float]],
    ) -> str:
        """Return the document of a sum of coefficients times fields, which may be derived."""
        document = ET.Element("PMML", {"xmlns": SPACE, "version": "4.4"})
        header = ET.SubElement(document, "Header")
        ET.SubElement(header, "Application", {"name": "perceptrank"})
        fields = ET.SubElement(document, "DataDictionary", {"numberOfFields": str(len(treatments))})
        for name in treatments:
            ET.SubElement(fields, "DataField", {"name": name, **_CONTINUOUS})
        how = {"functionName": "regression", "algorithmName": algorithm, "normalizationMethod": "none"}
        model = ET.SubElement(document, "RegressionModel", {"modelName": self.model_name, **how})
        schema = ET.SubElement(model, "MiningSchema")
        for name, treatment in treatments.items():
            ET.SubElement(schema, "MiningField", {"name": name, "usageType": "active", **treatment})
        output = ET.SubElement(model, "Output")
        ET.SubElement(output, "OutputField", {"name": self.score, **_CONTINUOUS, "feature": "predictedValue"})
        if len(derived):
            model.append(derived)
        table = ET.SubElement(model, "RegressionTable", {"intercept": repr(intercept)})
        for name, weight in coefficients:
            ET.SubElement(table, "NumericPredictor", {"name": name, "coefficient": repr(weight)})
        ET.indent(document)
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(document, encoding="unicode")}\n'

    def _notes(self, *, takes_missing: bool) -> list[str]:
        missing = "a feature that is missing makes the result invalid: the model has learned from none"
        if takes_missing:
            missing = "a missing feature counts as what the model takes for it"
        return [f"the output field {self.score!r} is the score of a document", missing]

    def _derived_name(self, name: str, names: tuple[str, ...]) -> str:
        while name in names or name == self.score:
            name += "_"
        return name

    def _add_field(self, derived: ET.Element, source: Input, term: Term, filled: Filled) -> str:
        """Return the field that a weight is of, and derive it if it is none of the document's own."""
        if not source.is_indicator and not term.offset and not _has_indicators(filled):
            return source.name
        name = self._derived_name(f"{'missing' if source.is_indicator else 'shifted'}({source.name})", filled.used)
        field = ET.SubElement(derived, "DerivedField", {"name": name, **_CONTINUOUS})
        if term.offset:
            field = ET.SubElement(field, "Apply", {"function": "-"})
        if source.is_indicator:
            _add_choice(field, source, 1.0, 0.0)
        elif _has_indicators(filled):
            _add_choice(field, source, float(source.fill or 0.0), None)
        else:
            ET.SubElement(field, "FieldRef", {"field": source.name})
        if term.offset:
            _add_number(field, term.offset)
        return name

    def run(self, model: Additive | Filled, text: str, columns: Any) -> Floats:
        if self.score != "score":
            raise ValueError(f"parity with pmml needs score='score', got {self.score!r}")
        return run_harness(str(self.harness), {"model.pmml": text}, list(model.used), columns, missing="")


def _treatments(filled: Filled) -> dict[str, dict[str, str]]:
    """Return what becomes of a missing value of each field.

    Where an indicator asks whether it is missing, it must stay so until then.
    """
    if not filled.takes_missing:
        return dict.fromkeys(filled.used, _INVALID)
    if _has_indicators(filled):
        return {name: {"missingValueTreatment": "asIs"} for name in filled.used}
    fills = {source.name: repr(source.fill) for source in filled.inputs}
    return {name: {"missingValueTreatment": "asValue", "missingValueReplacement": fills[name]} for name in filled.used}


def _has_indicators(filled: Filled) -> bool:
    return any(source.is_indicator for source in filled.inputs)


def _add_choice(parent: ET.Element, source: Input, missing: float, present: float | None) -> None:
    """Add a number if a feature is missing; else another, or the feature itself."""
    choice = ET.SubElement(parent, "Apply", {"function": "if"})
    ET.SubElement(ET.SubElement(choice, "Apply", {"function": "isMissing"}), "FieldRef", {"field": source.name})
    _add_number(choice, missing)
    if present is None:
        ET.SubElement(choice, "FieldRef", {"field": source.name})
    else:
        _add_number(choice, present)


def _add_scaled(parent: ET.Element, name: str, scaling: tuple[tuple[float, float], ...]) -> None:
    """Add (x - mean) * inverse of a feature, one after the other."""
    if not scaling:
        ET.SubElement(parent, "FieldRef", {"field": name})
        return
    mean, inverse = scaling[-1]
    product = ET.SubElement(parent, "Apply", {"function": "*"})
    difference = ET.SubElement(product, "Apply", {"function": "-"})
    _add_scaled(difference, name, scaling[:-1])
    _add_number(difference, mean)
    _add_number(product, inverse)


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
        ET.SubElement(
            interval, "Interval", {"closure": "openClosed" if margins[place] else "openOpen", **left, **margins[place]}
        )


def _add_number(parent: ET.Element, number: float) -> None:
    ET.SubElement(parent, "Constant", {"dataType": "double"}).text = repr(number)
