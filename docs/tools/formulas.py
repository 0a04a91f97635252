"""Formulas of Markdown as MathML: those that GitHub shows, $`…`$ and blocks of the kind math."""

import re
import unicodedata
from collections.abc import Callable

_SPACE = '<mspace width="0.17em"/>'


def as_mathml(source: str, display: str) -> str:
    """Convert a formula of TeX, for display "inline" or "block"; a command that is not known is an error."""
    from latex2mathml.converter import convert

    # The converter does not know braces of a given size: those stretch by themselves.
    plain = re.sub(r"\\[bB]ig[lr]\\([lr]brace)", r"\\\1", source.strip())
    # Browsers know script letters as characters only.
    plain = re.sub(r"\\mathcal (.)", lambda found: unicodedata.lookup(f"SCRIPT CAPITAL {found[1]}"), plain)
    formula = re.sub(r"<mi>(&#x0007[BD];)</mi>", r"<mo>\1</mo>", convert(plain, display=display))
    if re.search(r"\\[A-Za-z{}]|merror", formula):
        raise ValueError(f"a formula cannot be converted: {source}")
    # Bars as high as their text, no space around a stroke, and a little around the names of functions.
    formula = re.sub(
        r"<mo[^>]*>(&#x02225;|&#x02016;)</mo>", r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>', formula
    )
    formula = re.sub(r"<mo[^>]*>(/|&#x0002F;)</mo>", r'<mo lspace="0" rspace="0">\1</mo>', formula)
    formula = re.sub(r"(?<!<msub>)<mi>(ln|log|tanh|det)</mi>(?=<m[inr])", r"<mi>\1</mi>" + _SPACE, formula)
    formula = re.sub(r"(</m[ins]u?b?>)(?=<mi>(?:ln|log|tanh|det)</mi>)", r"\1" + _SPACE, formula)
    return f'<div class="display">{formula}</div>' if display == "block" else formula


def set_aside(text: str) -> tuple[str, Callable[[str], str]]:
    """Take the formulas out of Markdown; return the text, and a function that puts them into the HTML made of it."""
    formulas: list[str] = []

    def keep(found: re.Match[str], display: str) -> str:
        formulas.append(as_mathml(found[1], display))
        return f"FORMULA{len(formulas) - 1}END"

    def put_back(html: str) -> str:
        html = re.sub(r"<p>FORMULA(\d+)END</p>", r"FORMULA\1END", html)
        return re.sub(r"FORMULA(\d+)END", lambda found: formulas[int(found[1])], html)

    text = re.sub(r"^```math\n(.*?)^```$", lambda found: keep(found, "block"), text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\$`(.*?)`\$", lambda found: keep(found, "inline"), text, flags=re.DOTALL)
    return text, put_back
