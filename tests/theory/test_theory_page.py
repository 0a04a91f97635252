"""docs/theory.md: every statement has its test, and the page can be printed."""

import os
import re
import runpy
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from support.inequalities import inequalities
from support.pages import PAGES, ROOT

THEORY = PAGES["docs/theory.md"]
TOOLS = ROOT / "docs" / "tools"


def test_displayed_inequalities_name_their_tests():
    """After each of them, before the next heading, and in each row of the summary."""
    sections = re.split(r"^#+ ", THEORY, flags=re.M)
    displayed = 0
    for section in sections:
        *before, last = section.split("```math\n")
        if any(re.search(r"\\l[et]\b|\\ge\b", block.split("```")[0]) for block in [*before[1:], last] if before):
            displayed += 1
            assert re.search(r"`test_\w+`", last), section.splitlines()[0]
    assert displayed > 7
    (summary,) = (section for section in sections if section.startswith("Summary"))
    rows = [line for line in summary.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    assert all(re.search(r"`test_\w+` \|$", row) for row in rows)


def test_the_table_of_the_search_has_every_inequality():
    """Its rows are those of benchmarks/tightness.py, in its order, and no ratio is above 1."""
    section = THEORY.split("## How close a search comes\n")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in section.splitlines() if line[:1] == "|"
    ]
    assert [row[:2] for row in rows[2:]] == [[one.theorem, one.learner] for one in inequalities()]
    assert all(0 < float(row[2]) <= 1 for row in rows[2:])


def print_theory(path, blocked="", **variables):
    """Run docs/tools/print_theory.py, as if a package were not installed."""
    code = "import runpy, sys; sys.modules.update(dict.fromkeys(sys.argv.pop(1).split())); del sys.argv[0]; "
    code += "runpy.run_path(sys.argv[0], run_name='__main__')"
    words = [sys.executable, "-c", code, blocked, str(TOOLS / "print_theory.py"), str(path)]
    variables = os.environ | {"PYTHONPATH": str(TOOLS)} | variables
    return subprocess.run(words, env=variables, capture_output=True, text=True, check=True).stdout


def test_without_its_packages_nothing_is_printed(tmp_path):
    said = print_theory(tmp_path / "theory.pdf", "latex2mathml")
    assert said == "no PDF: latex2mathml is not installed, pip install 'perceptrank[docs]'\n"
    assert not list(tmp_path.iterdir())


def test_without_a_browser_nothing_is_printed(tmp_path):
    for package in ("latex2mathml", "markdown_it", "ziamath"):
        pytest.importorskip(package)
    said = print_theory(tmp_path / "theory.pdf", PATH=str(tmp_path), CHROMIUM="")
    assert said.startswith("no PDF: there is none of chromium, ")
    assert not list(tmp_path.iterdir())


def test_printed_formulas_are_whole():
    """Every formula becomes one, and what is put into them for looks leaves each element the children that it needs."""
    for package in ("latex2mathml", "markdown_it"):
        pytest.importorskip(package)
    page = runpy.run_path(str(TOOLS / "print_theory.py"))["page_of"](THEORY, "font.ttf")
    formulas = re.findall(r"<math.*?</math>", page, re.S)
    assert len(formulas) == len(re.findall(r"\$`|```math", THEORY))
    needed = {"msub": 2, "msup": 2, "mfrac": 2, "munder": 2, "mover": 2, "msubsup": 3, "munderover": 3}
    for formula in formulas:
        for element in ElementTree.fromstring(formula).iter():
            name = element.tag.split("}")[-1]
            assert len(element) == needed.get(name, len(element)), formula


@pytest.mark.deep
def test_the_theory_is_printed(tmp_path):
    for package in ("latex2mathml", "markdown_it", "ziamath"):
        pytest.importorskip(package)
    said = print_theory(tmp_path / "new" / "theory.pdf")
    if said.startswith("no PDF: there is none"):
        pytest.skip("no chromium is installed")
    printed = (tmp_path / "new" / "theory.pdf").read_bytes()
    assert printed.startswith(b"%PDF-")
    assert len(printed) > 200_000
