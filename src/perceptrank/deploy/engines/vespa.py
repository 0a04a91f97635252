"""A rank profile of Vespa."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from perceptrank.deploy.additive import Additive, ScoreCurve
from perceptrank.deploy.engines.programs import run_harness
from perceptrank.deploy.engines.trees import balanced
from perceptrank.deploy.target import Filled, FillingTarget, check_word
from perceptrank.kernels.arrays import Floats
from perceptrank.stream.validation import check_choice, check_positive_whole

PHASES = ("first", "second")
SOURCES = ("attribute", "feature")

# Names that Vespa does not take for a field, of whatever case.
RESERVED = re.compile(
    "attribute|case|documentid|else|host|if|index|index_url|position|relevancy|sddocname|select_input|split_foreach|"
    "summary|switch|tokenize",
    re.IGNORECASE,
)
_WORD = r"[A-Za-z_]\w*"
_FEATURE = re.compile(rf"{_WORD}(\(\s*[\w.-]+(\s*,\s*[\w.-]+)*\s*\)|\(\))?(\.{_WORD})*", re.ASCII)

_PROFILE = """\
# {kind} ({model.algorithm}) that perceptrank has exported, in double precision.
rank-profile {target.profile_name} inherits {target.inherits} {{

    # The features: change what computes one where it is made otherwise, and keep the name of its function.
{functions}
    {target.phase}-phase {{
{count}        expression {{
{terms}
        }}
    }}
}}
"""


@dataclass(frozen=True, kw_only=True)
class VespaProfile(FillingTarget):
    """A rank profile, for a schema or a .profile file: a function per feature, and the score of them.

    Parameters
    ----------
    profile_name : str
        Its name.
    inherits : str
        The profile that it inherits.
    phase : either "first" or "second"
        Which phase has the score.
    rerank_count : int, optional
        For the second phase: number of documents per content node that it ranks.
    source : either "attribute" or "feature"
        What the drafted functions are: the attribute of the feature's name, or that name itself, a rank feature such as
        `bm25(title)` or a function of the inherited profile.
    """

    name, engine_name, artefact = "vespa", "Vespa {}, its ranking expressions in Java", "searchlib"

    profile_name: str = "perceptrank"
    inherits: str = "default"
    phase: str = "first"
    rerank_count: int | None = None
    source: str = "attribute"

    def __post_init__(self) -> None:
        check_choice(self.option("phase"), self.phase, PHASES)
        check_choice(self.option("source"), self.source, SOURCES)
        for option in ("profile_name", "inherits"):
            check_word(self.option(option), getattr(self, option))
        if self.rerank_count is not None:
            check_positive_whole(self.option("rerank_count"), self.rerank_count)
            if self.phase == "first":
                raise ValueError("rerank_count of the target vespa needs phase=second")

    def write(self, model: Additive | Filled) -> tuple[str, list[str]]:
        words, notes = self._words(model.used)
        functions, terms = self._curves(model, words) if isinstance(model, Additive) else self._products(model, words)
        if model.bias:
            terms.append((model.bias, ""))
        text = _PROFILE.format(
            kind=model.kind.capitalize(),
            model=model,
            target=self,
            functions="".join(functions),
            count="" if self.rerank_count is None else f"        rerank-count: {self.rerank_count}\n",
            terms="\n".join(f"            {line}" for line in _signed(terms)),
        )
        return text, [*notes, *self._notes(takes_missing=model.takes_missing)]

    def _products(self, filled: Filled, words: dict[str, str]) -> tuple[list[str], list[tuple[float, str]]]:
        """Return functions of features, and of trees, and weights with what they are of."""
        functions, terms, values = [], list[tuple[float, str]](), []
        for term in filled.terms:
            function = f"{'missing' if term.is_indicator else 'feature'}_{words[term.name]}"
            expression = self._reference(term.name, words)
            if term.is_indicator:
                expression = f"isNan({expression})"
            elif term.fill is not None:
                expression = f"if (isNan({expression}) == 1, {term.fill!r}, {expression})"
            functions.append(_function(function, expression))
            values.append(function)
            sign = "-" if term.offset > 0.0 else "+"
            value = f"({function} {sign} {abs(term.offset)!r})" if term.offset else function
            terms.append((term.weight, f" * {value}"))
        trees = [] if filled.forest is None else filled.forest.nested(repr, partial(_split, values))
        for number, tree in enumerate(trees):
            functions.append(_function(f"tree_{number}", tree))
            terms.append((1.0, f" * tree_{number}"))
        return functions, terms

    def _curves(self, additive: Additive, words: dict[str, str]) -> tuple[list[str], list[tuple[float, str]]]:
        functions, terms = [], []
        for curve in additive.curves:
            word = words[curve.name]
            value = f"feature_{word}"
            functions.append(_function(value, self._reference(curve.name, words)))
            for mean, inverse in curve.before:
                value = f"(({value} - ({mean!r})) * {inverse!r})"
            if curve.before:
                functions.append(_function(f"scaled_{word}", value))
                value = f"scaled_{word}"
            functions.append(_function(f"curve_{word}", _conditions(curve, value, has_steps=additive.has_steps)))
            terms.append((1.0, f" * curve_{word}"))
        return functions, terms

    def _words(self, names: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
        """Return a word of Vespa's for each feature, no two of which differ in case only."""
        words: dict[str, str] = {}
        taken = set()
        for name in names:
            if self.source == "feature" and not _FEATURE.fullmatch(name):
                raise ValueError(
                    f"feature {name!r} is not written as a rank feature of Vespa, such as bm25(title), or a function "
                    "without arguments: rename it, or export with source=attribute"
                )
            bare = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "x"
            word = bare if bare[0].isalpha() else f"x{bare}"
            word = f"{word}_field" if RESERVED.fullmatch(word) else word
            unique, number = word, 2
            while unique.lower() in taken:
                unique, number = f"{word}_{number}", number + 1
            words[name] = unique
            taken.add(unique.lower())
        changed = [f"{name!r} is {word}" for name, word in words.items() if name != word]
        if changed and self.source == "attribute":
            note = f"fields of Vespa have letters, digits and _ in their names, and ignore case: {', '.join(changed)}"
            return words, [note]
        return words, []

    def _reference(self, name: str, words: dict[str, str]) -> str:
        return f"attribute({words[name]})" if self.source == "attribute" else re.sub(r"\s", "", name)

    def _notes(self, *, takes_missing: bool) -> list[str]:
        notes = []
        if self.source == "attribute":
            notes.append(
                "a draft: each feature is the attribute of its name, of type double (one of type float has 7 digits); "
                "change the functions of those that are made otherwise"
            )
        if takes_missing:
            notes.append("a feature without value (NaN in Vespa) counts as what the model takes for a missing one")
        else:
            notes.append("a document that has no value for a feature (NaN in Vespa) is ranked last")
        if self.phase == "second":
            notes.append(
                "the second phase ranks the best documents of the first only: rerank-count of each content node"
            )
        return notes

    def run(self, model: Additive | Filled, text: str, columns: Any) -> Floats:
        words, _ = self._words(model.used)
        fields = "".join(f"field {word} type double {{\n indexing: attribute\n }}\n" for word in words.values())
        parents = "" if self.inherits == "default" else f"rank-profile {self.inherits} {{}}\n"
        schema = f"schema documents {{\ndocument documents {{\n{fields}}}\n{parents}{text}}}\n"
        references = [self._reference(name, words) for name in model.used]
        return run_harness(str(self.harness), {"schema.sd": schema}, references, columns, missing="NaN")


def _signed(terms: list[tuple[float, str]]) -> Iterator[str]:
    """Write a sum with a sign before each term but the first, if that is positive."""
    for place, (number, rest) in enumerate(terms):
        sign = "-" if number < 0.0 else "+" if place else ""
        yield f"{sign}{' ' if place else ''}{abs(number)!r}{rest}"


def _split(values: list[str], feature: int, threshold: float, left: str, right: str) -> str:
    """Return what a node of a tree adds; where a feature is NaN, the sum is so by its product."""
    return f"if ({values[feature]} <= {threshold!r}, {left}, {right})"


def _function(name: str, expression: str) -> str:
    return f"    function {name}() {{\n        expression: {expression}\n    }}\n"


def _conditions(curve: ScoreCurve, value: str, *, has_steps: bool) -> str:
    """Return what a feature adds, by bisection of its edges; NaN stays NaN, which is above every edge."""
    leaves = [repr(height) for height in curve.heights]
    if not has_steps:
        lines = (
            f"{start!r} + ({rise!r}) * (({value} - ({low!r})) / {length!r})"
            for low, length, start, rise in curve.lines()
        )
        leaves = [leaves[0], *lines, leaves[-1]]
    inner = balanced(curve.edges, leaves, lambda edge, up, above: f"if ({value} <= {edge!r}, {up}, {above})")
    return f"if (isNan({value}) == 1, {value}, {inner})"
