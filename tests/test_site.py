"""The documentation as a site: built strictly, nothing from outside, no link that leads nowhere."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from support.pages import ROOT

LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """Names in a page, what it loads, and what it links to."""

    def __init__(self, path):
        super().__init__()
        self.names, self.loads, self.links = set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.names |= {given.get("id"), given.get("name")} - {None}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag in LOADED and given.get(LOADED[tag]):
            self.loads.append(given[LOADED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for package in ("mkdocs", "material", "mkdocstrings", "latex2mathml", "ziamath"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path: Page(path) for path in folder.rglob("*.html")}


def is_outside(address):
    return re.match(r"(?:[a-z][a-z+.-]*:)?//", address, re.I) is not None


def test_nothing_is_loaded_from_outside(site):
    assert not [(path.name, one) for path, page in site.items() for one in page.loads if is_outside(one)]
    (folder,) = {path.parent for path in site if path.name == "404.html"}
    for style in folder.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//|@import", style.read_text(encoding="utf-8")), style.name


def test_every_link_leads_somewhere(site):
    n_links = 0
    for path, page in site.items():
        if path.name == "404.html":  # its addresses are those of a server
            continue
        for address in page.links + page.loads:
            if is_outside(address) or re.match(r"(?:mailto|data|javascript):", address):
                continue
            target, _, name = unquote(address).partition("#")
            found = (path.parent / target.partition("?")[0]).resolve() if target else path
            found = found / "index.html" if found.is_dir() else found
            assert found.exists(), (path.name, address)
            if name and found.suffix == ".html":
                assert name in site[found].names, (path.name, address)
            n_links += 1
    assert n_links > 500


def test_every_page_has_a_title_and_no_trace_of_its_source(site):
    for path in site:
        text = path.read_text(encoding="utf-8")
        assert re.search(r"<title>[^<]+</title>", text), path.name
        shown = re.sub(r"<(script|style|code|pre)\b.*?</\1>", "", text, flags=re.S)
        assert not re.search(r"FORMULA\d+END|\$`|^:::|\]\(\w+\.md", shown, re.M), path.name


def test_the_pages_are_those_of_the_folder(site):
    pages = {str(Path(path).with_suffix(".html")) for path in map(str, (ROOT / "docs").rglob("*.md"))}
    (folder,) = {path.parent for path in site if path.name == "404.html"}
    built = {str(ROOT / "docs" / path.relative_to(folder)) for path in site}
    assert pages <= built
