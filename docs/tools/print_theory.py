"""Print the core of docs/theory/ as a paper: `python docs/tools/print_theory.py FILE.pdf`, formulas as MathML.

The paper is made of the pages: without the sections that are about the package, with numbered sections, and with those
entries of the literature that it cites. Needs the packages of the extra `docs` and a Chromium or Chrome, by its path in
CHROMIUM or by one of its usual names; without them it says what is missing and ends with exit code 0, as there is
nothing wrong then with the pages. A formula that cannot be converted is an error.
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
PAGES = ("introduction", "lemmas", "bounds", "limits", "places", "averages", "literature", "errata")
OF_THE_PACKAGE = ("Transforms", "In code", "Checked by")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
STYLE = """
@font-face { font-family: "Formulas"; src: url("FONT"); }
@page { size: A4; margin: 19mm 19mm 20mm; @bottom-center { content: counter(page); font: 8pt sans-serif; } }
body { font: 10.1pt/1.42 "STIX Two Text", "Libertinus Serif", "Liberation Serif", "Times New Roman", serif; }
math { font-family: "Formulas", math; font-size: 1.02em; }
p, li { overflow-wrap: break-word; margin: 0 0 5pt; } ul, ol { padding-left: 15pt; margin: 0 0 5pt; }
h1 { font-size: 17pt; margin: 0 0 8pt; text-align: center; } h1 + p { text-align: center; margin-bottom: 10pt; }
h1 + p + p { margin: 0 10mm 8pt; font-size: .94em; }
h2 { font-size: 12.5pt; margin: 14pt 0 5pt; } h3 { font-size: 10.5pt; margin: 9pt 0 4pt; }
h1, h2, h3 { font-family: sans-serif; break-after: avoid; line-height: 1.2; }
code { font-size: .84em; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-size: 8.2pt; line-height: 1.28; margin: 4pt 0 7pt; }
th, td { border-bottom: .4pt solid #999; padding: 2pt 4pt; text-align: left; vertical-align: top; }
tr, img, p:has(> img) { break-inside: avoid; } p:has(> img) { break-after: avoid; }
thead { display: table-header-group; }
th { border-bottom-color: #000; }
a { color: inherit; text-decoration: none; }
img { width: 108mm; display: block; margin: 4pt auto 0; }
.display { margin: 5pt 0; text-align: center; break-inside: avoid; }
"""


def paper() -> str:
    """Return the text of the paper in Markdown."""
    texts = {name: (FOLDER / "theory" / f"{name}.md").read_text(encoding="utf-8") for name in PAGES}
    texts["literature"], literature = texts["literature"].split("## Literature\n")
    for title in OF_THE_PACKAGE:
        texts = {
            name: re.sub(rf"^## {title}\n.*?(?=^## |\Z)", "", text, flags=re.M | re.S) for name, text in texts.items()
        }
    whole = "\n\n".join(
        text if name == "introduction" else re.sub("^#", "##", text, flags=re.M) for name, text in texts.items()
    )
    entries = [line for line in literature.splitlines() if line[:2] != "- " or is_cited(line, whole)]
    main, errata = whole.split("\n\n## The paper: ")
    section, number = 0, 0

    def numbered(found: re.Match[str]) -> str:
        nonlocal section, number
        if len(found[1]) == 2:
            section, number = section + 1, 0
            return f"## {section}. {found[2]}"
        number += 1
        return f"### {section}.{number}. {found[2]}"

    main = re.sub(r"^(###?) (.*)$", numbered, main, flags=re.M)
    literature = "\n".join(entries)
    return within(f"{main}\n\n## References\n{literature}\n\n## Appendix. The paper: {errata}")


def is_cited(entry: str, text: str) -> bool:
    """Whether a text names the first author of an entry of the literature with its year."""
    author, year = re.search(r"([^\s,]+)(?:,| and )", entry), re.findall(r"\b(?:19|20)\d\d\b", entry)
    return bool(author and year and re.search(rf"{re.escape(author[1])}\b[^;:\d]{{0,60}}? {year[0]}\b", text))


def within(text: str) -> str:
    """Links to what the paper has lead there; of all others only the words are left."""
    text = text.replace("](../figures/", "](figures/")
    names = "|".join(PAGES)
    text = re.sub(rf"\]\((?:{names})\.md(#[\w-]+)\)", r"](\1)", text)
    return re.sub(r"(?<!!)\[([^]]+)\]\((?!#)[^)]+\)", r"\1", text)


def page_of(text: str, font: str) -> str:
    """Return the paper as HTML."""
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
    """A heading with the name that links lead to, which is without its number."""
    plain = re.sub(r"^[\d.]+ ", "", re.sub(r"<[^>]*>", "", html.unescape(found[2])))
    name = re.sub(r"[^\w -]", "", plain.lower()).replace(" ", "-")
    return f'<{found[1]} id="{name}">{found[2]}</{found[1]}>'


def main(path: Path) -> None:
    """Print the paper, or say what is missing."""
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
        source.write_text(page_of(paper(), font.as_uri()), encoding="utf-8")
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
