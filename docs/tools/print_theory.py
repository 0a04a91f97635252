"""Print docs/theory.md: `python docs/tools/print_theory.py FILE.pdf`, from the same source, formulas as MathML.

Needs the packages of the extra `docs` and a Chromium or Chrome, by its path in CHROMIUM or by one of its usual names;
without them it says what is missing and ends with exit code 0, as there is nothing wrong then with the page. A formula
that cannot be converted is an error.
"""

import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from formulas import set_aside

FOLDER = Path(__file__).parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
STYLE = """
@font-face { font-family: "Formulas"; src: url("FONT"); }
@page { size: A4; margin: 20mm 17mm 18mm; }
body { font: 9.6pt/1.42 "STIX Two Text", "Libertinus Serif", "Times New Roman", serif; }
math { font-family: "Formulas", math; font-size: 1.02em; }
p, li { overflow-wrap: break-word; }
h1 { font-size: 20pt; margin: 0 0 4pt; } h2 { font-size: 14pt; margin-top: 18pt; } h3 { font-size: 11.5pt; }
h1, h2, h3 { font-family: sans-serif; break-after: avoid; line-height: 1.2; }
code { font-size: .84em; overflow-wrap: anywhere; } pre { font-size: .84em; white-space: pre-wrap; }
table { border-collapse: collapse; width: 100%; font-size: 8.4pt; line-height: 1.3; }
th, td { border-bottom: .4pt solid #999; padding: 2.2pt 4pt; text-align: left; vertical-align: top; }
tr, img { break-inside: avoid; } thead { display: table-header-group; }
th { border-bottom-color: #000; }
a { color: inherit; text-decoration: none; }
img { width: 120mm; display: block; margin: 4pt auto; }
.display { margin: 6pt 0; text-align: center; break-inside: avoid; }
"""


def page_of(text: str, font: str) -> str:
    """Return the page as HTML."""
    from markdown_it import MarkdownIt

    plain, put_back = set_aside(text)
    body = put_back(MarkdownIt("commonmark").enable("table").render(plain))
    body = re.sub(r"<(h[1-6])>(.*?)</\1>", headed, body)
    title = html.escape(text.splitlines()[0].lstrip("# "))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f'<base href="{FOLDER.as_uri()}/"><style>{STYLE.replace("FONT", font)}</style>{body}</html>'
    )


def headed(found: re.Match[str]) -> str:
    """A heading with the name that links lead to."""
    plain = re.sub(r"<[^>]*>", "", html.unescape(found[2]))
    name = re.sub(r"[^\w -]", "", plain.lower()).replace(" ", "-")
    return f'<{found[1]} id="{name}">{found[2]}</{found[1]}>'


def main(path: Path) -> None:
    """Print the page, or say what is missing."""
    try:
        import latex2mathml  # noqa: F401
        import markdown_it  # noqa: F401
        import ziamath
    except ImportError as error:
        print(f"no PDF: {error.name} is not installed, pip install 'perceptrank[docs]'")
        return
    browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"no PDF: there is none of {', '.join(BROWSERS)}; name one in CHROMIUM")
        return
    (font,) = (Path(ziamath.__file__).parent / "fonts").glob("STIXTwoMath*.ttf")
    with tempfile.TemporaryDirectory() as folder:
        source, printed = Path(folder) / "theory.html", Path(folder) / "theory.pdf"
        source.write_text(page_of((FOLDER / "theory.md").read_text(encoding="utf-8"), font.as_uri()), encoding="utf-8")
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-pdf-header-footer",
            "--virtual-time-budget=20000",
        ]
        options += [f"--user-data-dir={folder}/profile", f"--print-to-pdf={printed}"]
        subprocess.run([browser, *options, source.as_uri()], check=True, capture_output=True, timeout=300)
        if not printed.exists():
            sys.exit(f"error: {browser} has printed nothing")
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(printed, path)
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("theory.pdf"))
