"""docs/deploy.md: every target has its section."""

import re

from support.pages import ROOT

import perceptrank as pr

GUIDE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")


def test_every_target_has_a_section():
    for target in pr.deploy.targets():
        assert re.search(rf"^## .*\b{target}\b", GUIDE, re.M), target
        assert f"`{target}`" in GUIDE
