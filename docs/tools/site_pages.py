"""Hooks of MkDocs for what the site shows in another way than GitHub does: formulas, and links to the source."""

import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from formulas import set_aside

_PUT_BACK: dict[str, Callable[[str], str]] = {}


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Set formulas aside; name files that are no pages instead of linking to them."""
    folder, docs = Path(page.file.abs_src_path).parent, Path(config.docs_dir)

    def named(found: re.Match[str]) -> str:
        target = (folder / found[2]).resolve()
        if target.is_relative_to(docs):
            return found[0]
        if not target.exists():
            raise FileNotFoundError(f"{page.file.src_uri} links to {found[2]}, which does not exist")
        text = found[1].strip("`")
        return f"`{text}`" if "." in text and " " not in text else text

    markdown = re.sub(r"\[([^]]+)\]\((\.\./[^)#]+)(?:#[^)]*)?\)", named, markdown)
    markdown, _PUT_BACK[page.file.src_uri] = set_aside(markdown)
    return markdown


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Put the formulas where they belong, and let wide tables scroll by themselves."""
    return _PUT_BACK.pop(page.file.src_uri)(html)


def on_post_build(config: Any) -> None:
    """Bring the font of the formulas."""
    (folder,) = find_spec("ziamath").submodule_search_locations
    (font,) = Path(folder).glob("fonts/STIXTwoMath*.ttf")
    target = Path(config.site_dir) / "look" / "formulas.ttf"
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(font.read_bytes())
