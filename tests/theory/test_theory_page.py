"""docs/theory/: statements have their numbers and tests, and the core can be printed."""

import os
import re
import runpy
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from support.inequalities import inequalities
from support.pages import PAGES, ROOT

TOOLS = ROOT / "docs" / "tools"
# In reading order.
NAMES = re.findall(r"- (?:\w+: )?(theory/\w+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
THEORY = {name.removeprefix("theory/"): PAGES[f"docs/{name}"] for name in NAMES}
STATEMENT = re.compile(r"\*\*((?:Theorem|Corollary|Lemma) \d+[′″]*)(?: \(([A-Z][′″]*)[,)])?")


def rows_of(page, heading):
    """Cells of a table: that of a section of a page."""
    section = re.split(r"^#+ ", page.split(f"# {heading}\n")[1], flags=re.M)[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:1] == "|"]
    return [[cell.strip(" |") for cell in row] for row in rows[2:]]


def test_statements_are_numbered_in_reading_order():
    assert set(THEORY) == {path.name for path in (ROOT / "docs" / "theory").glob("*.md")}
    names = [name for page in THEORY.values() for name, _ in STATEMENT.findall(page)]
    theorems = [name.split()[1] for name in names if not name.startswith("Lemma")]
    assert theorems == [str(1 + place) for place in range(len(theorems))]
    assert [name.split()[1] for name in names if name.startswith("Lemma")] == [
        "1",
        "1′",
        "1″",
        "2",
        "2′",
        "3",
        "4",
        "5",
        "6",
    ]
    assert len(theorems) > 40


def test_every_statement_names_its_tests():
    for name, page in THEORY.items():
        stated = {statement for statement, _ in STATEMENT.findall(page)}
        rows = rows_of(page, "Checked by") if stated else []
        assert stated <= {one for row in rows for one in re.findall(r"(?:Theorem|Corollary|Lemma) \d+[′″]*", row[0])}, (
            name
        )
        assert all(re.search(r"`test_\w+`", row[1]) for row in rows), name


def test_names_and_numbers_belong_together():
    """What code calls Theorem B is found: the table has every letter, and leads to its page."""
    stated = {
        letter: (number, page) for page, text in THEORY.items() for number, letter in STATEMENT.findall(text) if letter
    }
    cells = [cell for row in rows_of(THEORY["index.md"], "Names and numbers") for cell in row]
    listed = dict(zip(cells[::2], cells[1::2], strict=True))
    assert listed.pop("Hedge").startswith("[26](mixing.md#")
    assert stated.keys() == listed.keys()
    for letter, (number, page) in stated.items():
        assert listed[letter].startswith(f"[{number.split()[1]}]({page}"), letter
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"Theorems? ([A-Z])\b", source))
    assert named
    assert named <= {letter[0] for letter in stated}


def test_the_summary_leads_to_the_theorems():
    rows = rows_of(THEORY["index.md"], "Which learner, which theorem")
    assert len(rows) > 20
    for row in rows:
        for numbers, page in re.findall(r"\[([\d, to]+)\]\((\w+\.md)", row[1]):
            stated = {name.split()[1] for name, _ in STATEMENT.findall(THEORY[page])}
            assert set(re.findall(r"\d+", numbers)) <= stated, row


def test_what_is_machine_checked_is_in_the_proofs():
    marks = [
        mark for page in THEORY.values() for mark in re.findall(r"machine-checked\]\(\.\./\.\./proofs/(\w+\.v)\)", page)
    ]
    assert len(marks) == 11
    assert all((ROOT / "proofs" / mark).exists() for mark in marks)


def test_the_table_of_the_search_has_every_inequality():
    """Its rows are those of benchmarks/tightness.py, in its order, and no ratio is above 1."""
    rows = rows_of(THEORY["search.md"], "How close a search comes")
    assert [row[:2] for row in rows] == [[one.theorem, one.learner] for one in inequalities()]
    assert all(0 < float(row[2]) <= 1 for row in rows)


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
    page_of = runpy.run_path(str(TOOLS / "print_theory.py"))["page_of"]
    whole = "\n\n".join(THEORY.values())
    formulas = re.findall(r"<math.*?</math>", page_of(whole, "font.ttf"), re.S)
    assert len(formulas) == len(re.findall(r"\$`|```math", whole))
    needed = {"msub": 2, "msup": 2, "mfrac": 2, "munder": 2, "mover": 2, "msubsup": 3, "munderover": 3}
    for formula in formulas:
        for element in ElementTree.fromstring(formula).iter():
            name = element.tag.split("}")[-1]
            assert len(element) == needed.get(name, len(element)), formula


def test_the_paper_is_made_of_the_pages():
    """Its links lead to what it has, and its literature is what it cites."""
    paper = runpy.run_path(str(TOOLS / "print_theory.py"))
    text = paper["paper"]()
    assert "Checked by" not in text
    assert "In code" not in text
    assert ".md" not in text
    page = paper["page_of"](text, "font.ttf")
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(re.findall(r'id="([^"]+)"', page))
    assert not re.findall(r'href="[^#]', re.sub("<base[^>]*>", "", page))
    assert "Novikoff" in text.split("## References")[1]
    assert "Kivinen" not in text
    assert [number for number, _ in re.findall(r"^## (\d)\. (.*)", text, re.M)] == list("1234567")


@pytest.mark.deep
def test_the_theory_is_printed(tmp_path):
    for package in ("latex2mathml", "markdown_it", "ziamath"):
        pytest.importorskip(package)
    said = print_theory(tmp_path / "new" / "theory.pdf")
    if said.startswith("no PDF: there is none"):
        pytest.skip("no chromium is installed")
    printed = (tmp_path / "new" / "theory.pdf").read_bytes()
    assert printed.startswith(b"%PDF-")
    assert 12 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 15
