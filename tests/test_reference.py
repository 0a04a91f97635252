"""The pages of the API reference: every public name once, every type explained, every option of every command."""

import builtins
import collections.abc
import concurrent.futures
import dataclasses
import importlib
import inspect
import os
import pathlib
import re
import typing
from pathlib import Path

import command_pages
import numpy as np
import numpy.typing as npt
import public_names
import pytest
from support.surface import documented, public, public_functions
from typer.main import get_command

from perceptrank.cli.app import app
from perceptrank.deploy.exports import _TARGETS

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted((DOCS / "reference").glob("*.md"))}
OBJECTS = [path for text in PAGES.values() for path in re.findall(r"^::: (\S+)$", text, re.M)]
STANDARD = (builtins, collections.abc, concurrent.futures, np.random, npt, os, pathlib, typing)
# Variables of types, and what users only hand on, or have nothing to do with.
INNER = {"Directions", "Effects", "Format", "Kind", "Measured", "Result", "Scanned"}
INNER |= {"Forward", "ShownEntry", "Terms", "Work", "WorstQueries"}
ANCHORS = re.findall(r"\{ #(perceptrank\S+) \}", PAGES["index.md"])


def find(path):
    """Return the thing of a full name."""
    room, _, name = path.rpartition(".")
    return getattr(importlib.import_module(room), name)


def test_every_public_name_is_described_once():
    shown = [id(find(path)) for path in OBJECTS]
    twice = [path for path in OBJECTS if shown.count(id(find(path))) > 1]
    assert not twice, twice
    missing = [name for name, value in public().items() if id(value) not in shown]
    assert not missing, missing


def test_every_target_is_described_with_its_options():
    for target, (module, kind) in _TARGETS.items():
        path = f"perceptrank.deploy.engines.{module}.{kind}"
        assert f"::: {path}\n    options:\n      heading: {target}\n" in PAGES["deploy.md"]
        described = {
            name for one in find(path).__mro__ for name in documented(inspect.cleandoc(one.__doc__ or ""), "Parameters")
        }
        assert described == {field.name for field in dataclasses.fields(find(path))}, target


def test_members_that_pages_name_exist():
    for text in PAGES.values():
        for path, options in re.findall(r"^::: (\S+)\n((?: +.*\n)*)", text, re.M):
            names = re.findall(r"^ +- (\w+)$", options, re.M)
            for listed in re.findall(r"members: \[(.*)\]", options):
                names += listed.split(", ")
            assert all(hasattr(find(path), name) for name in names), path


def test_the_interface_of_learners_is_described_completely():
    (options,) = re.findall(r"^::: perceptrank.Learner\n((?: +.*\n)*)", PAGES["learners.md"], re.M)
    named = set(re.findall(r"^ +- (\w+)$", options, re.M))
    kind = find("perceptrank.Learner")
    members = {
        name
        for name, value in inspect.getmembers_static(kind)
        if not name.startswith("_") and (isinstance(value, (property, classmethod)) or inspect.isfunction(value))
    }
    assert named == members


@pytest.mark.parametrize("unit", ["lists", "pairs", "documents", "clicks"])
def test_learners_stand_under_the_unit_that_they_take(unit):
    part = PAGES["learners.md"].partition(f"## Learners of {unit}\n")[2].partition("\n## ")[0]
    kinds = [find(path) for path in re.findall(r"^::: (\S+)$", part, re.M)]
    assert kinds
    assert all(kind.takes == unit for kind in kinds if hasattr(kind, "takes"))


def test_every_name_of_a_type_is_explained():
    explained = {path.rpartition(".")[2] for path in [*OBJECTS, *ANCHORS]}
    unknown = {}
    for name, value in public_functions().items():
        try:
            signature = inspect.signature(value)
        except ValueError:
            continue
        kinds = [one.annotation for one in signature.parameters.values()] + [signature.return_annotation]
        for kind in kinds:
            text = re.sub(r"'[^']*'|\"[^\"]*\"", "", kind) if isinstance(kind, str) else inspect.formatannotation(kind)
            for word in re.findall(r"\b[A-Z]\w+", text):
                if word not in explained | INNER and not any(hasattr(room, word) for room in STANDARD):
                    unknown.setdefault(word, name)
    assert not unknown, unknown


@pytest.mark.parametrize("path", ANCHORS)
def test_types_that_are_explained_exist(path):
    find(path)


def test_all_names_are_in_the_table():
    text = public_names.on_page_markdown(PAGES["index.md"])
    rows = dict(re.findall(r"^\| \[`\S+`\]\[(\S+)\] \| (.*) \|$", text, re.M))
    assert set(OBJECTS) - set(rows) == {path for path in OBJECTS if inspect.ismodule(find(path))}
    assert (
        rows["perceptrank.QueryStream"]
        == "A sequence of judged queries, or of impressions, stored as one ragged batch."
    )
    assert all(rows.values())


def test_names_in_code_become_links():
    linked = public_names._linked
    assert 'identifier="perceptrank.Slam"' in linked("perceptrank.Slam", is_name=False)
    assert linked("QueryStream or iterable of blocks", is_name=False).endswith("</autoref> or iterable of blocks")
    assert linked("margin", is_name=False) == "margin"
    assert linked("weight_ratio", is_name=True) == "weight_ratio"


def test_every_option_of_every_command_is_on_the_page():
    text = command_pages.on_page_markdown(PAGES["commands.md"])
    group = get_command(app)
    for name, command in group.commands.items():
        part = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert f"perceptrank {name}" in part
        assert "**Example**" in part
        for one in command.params:
            if one.param_type_name == "option" and not one.hidden:
                assert all(f"`{flag}`" in part for flag in [*one.opts, *one.secondary_opts]), (name, one.name)
    assert "| `--queries` | `INTEGER` | Number of queries to simulate. | `1000` |" in text
    assert text == command_pages.on_page_markdown(PAGES["commands.md"])
