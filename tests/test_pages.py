"""Every page of the documentation: followed from top to bottom in a small shop; what it names and links to is there."""

import re
import runpy
import shutil
import tomllib

import pytest
from support.pages import PAGES, ROOT, blocks_of, follow
from support.shop import make_shop
from typer.main import get_command

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.stream import columns

# Pages whose commands are a server's, or whose learners would be known to all tests; and the tests that follow them.
ELSEWHERE = {"docs/serve.md": "serve/test_walk.py", "docs/learners/your-own.md": "learners/test_your_own.py"}
# `sh` is for commands of a machine that has more than this one: a Docker daemon, an engine.
KINDS = {"python", "bash", "console", "sh", "text", "json", "toml", "csv", "js", "sql", "math", "yaml", "html"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    make_shop(folder)
    return folder


@pytest.fixture
def in_the_shop(shop, tmp_path, monkeypatch):
    """The current folder has the shop's files."""
    shutil.copytree(shop, tmp_path / "shop")
    monkeypatch.chdir(tmp_path / "shop")
    monkeypatch.setenv("MPLBACKEND", "agg")
    known, declared = set(pr.algorithms()), set(columns.declared())
    yield
    for name in set(columns.declared()) - declared:  # of the page on data: in other tests they are features
        columns.withdraw(name)
    for name in set(pr.algorithms()) - known:  # of --plugin
        pr.unregister(name)


@pytest.mark.engine
@pytest.mark.parametrize("name", [name for name in PAGES if name not in ELSEWHERE])
@pytest.mark.filterwarnings("ignore:.*columns of text are no features")  # the category of the shop's queries
def test_the_page_can_be_followed(name, in_the_shop):
    follow(ROOT / name)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_page_that_is_followed_elsewhere_is(name):
    assert name.removeprefix("docs/") in (ROOT / "tests" / ELSEWHERE[name]).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_every_block_says_what_it_is(name):
    """A block without a kind is neither coloured on the site nor followed here."""
    found = blocks_of(PAGES[name])
    assert {block.kind for block in found} <= KINDS
    assert 2 * len(found) == len(re.findall(r"^ *```", PAGES[name], re.M))


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_links_to_is_there(name):
    """Files, figures, and headings, whose names are made as GitHub makes them."""
    links = re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", re.sub(r"```.*?```", "", PAGES[name], flags=re.S))
    for target, heading in links:
        path = (ROOT / name).parent / target if target else ROOT / name
        assert path.exists(), target
        if heading:
            text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S)
            headings = [
                re.sub(r"[^\w -]", "", line.lstrip("# ").lower()) for line in text.splitlines() if line[:1] == "#"
            ]
            assert heading in [one.replace(" ", "-") for one in headings], f"{target}#{heading}"


@pytest.mark.parametrize("name", PAGES)
def test_files_and_tests_that_are_named_exist(name):
    page = PAGES[name]
    own = {block.title for block in blocks_of(page)}
    for path in re.findall(r"`([\w./]+\.pyi?)`", page):
        found = [folder for folder in (ROOT, ROOT / "src" / "perceptrank", ROOT / "src") if (folder / path).exists()]
        assert found or path in own or list((ROOT / "tests").rglob(path)), path
    formulas = re.sub(r"```math.*?```", "", page, flags=re.S)
    assert formulas.count("$`") == formulas.count("`$")
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert not [test for test in re.findall(r"`(test_\w+)`", page) if f"def {test}(" not in tests]


def test_every_promise_of_reliability_names_a_test():
    assert len(set(re.findall(r"`(test_\w+)`", PAGES["docs/reliability.md"]))) > 30


def test_the_readme_is_short():
    assert len(PAGES["README.md"].split()) < 600


def test_the_rooms_are_drawn_as_they_are():
    drawing = PAGES["docs/architecture.md"].split("## Packages")[1].split("```")[1].removeprefix("text")
    rooms = re.findall(r"^(\w+)/", drawing, re.M)
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    assert rooms == contract["layers"]
    for room, text in zip(rooms, re.split(r"^\w+/", drawing, flags=re.M)[1:], strict=True):
        for file in re.findall(r"[\w]+\.py|\w+/", text):
            assert (ROOT / "src" / "perceptrank" / room / file).exists(), (room, file)


def test_the_drawing_of_the_rooms_is_the_script_s():
    drawn = runpy.run_path(str(ROOT / "docs" / "figures" / "draw_rooms.py"))["draw"]()
    assert drawn == (ROOT / "docs" / "figures" / "rooms.svg").read_text(encoding="utf-8")


def test_commands_that_are_named_exist():
    """Every line that starts with perceptrank, and every such command in backticks, with its options."""
    commands = get_command(app).commands
    n_found = 0
    for name, text in PAGES.items():
        lines = re.findall(r"^(?:\$ )?perceptrank ([^#\n]*)", text, re.M) + re.findall(r"`perceptrank ([^`]*)`", text)
        for line in (part for found in lines for part in found.split(" · ")):
            command, *words = re.sub(r"--plugin \S+|--debug", "", line).split()
            if command not in ("COMMAND", "--version", "--help"):
                assert command in commands, (name, line)
                assert {word for word in words if word.startswith("--")} <= set(flags(commands[command])), (name, line)
                n_found += 1
    assert n_found > 30


def flags(command):
    return ["--help", *(option for one in command.params for option in [*one.opts, *one.secondary_opts])]


@pytest.mark.parametrize("name", PAGES)
def test_names_of_the_library_exist(name):
    for path in set(re.findall(r"\bpr\.([A-Za-z_][\w.]*\w)", PAGES[name])):
        value = pr
        for part in path.split("."):
            value = getattr(value, part)
