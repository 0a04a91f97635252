"""The report's files, and its page in a real browser."""

import csv
import json
import os
import re
import shutil
from html import escape
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.evaluation.plots import three_digits
from perceptrank.paper.clicks_walk import MOMENTS
from perceptrank.paper.contenders import CONTENDERS, RATES
from perceptrank.paper.walkthrough import walk_through

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LONG = "long" * 30  # a word wider than the page
NAME = f"a $b<!--<script>&c\ufffd\ufffd{LONG}"  # the two before it stand for what is no text
FOLDER = os.fsdecode(b"a $b<!--<script>&c\x1b\xff") + LONG
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A quick report on the simulated stream and on a small noisy one whose name needs escaping."""
    root = tmp_path_factory.mktemp("reproduce")
    (root / "data" / FOLDER).mkdir(parents=True)
    noisy = pr.separable(80, n_documents=8, n_features=6, label_noise=0.3, seed=2).stream
    pr.write_letor(noisy, root / "data" / FOLDER / os.fsdecode(b"train\xff.txt"))
    (root / "data" / "readme.txt").write_text("About the data\n")
    (root / "data" / os.fsdecode(b"readme\x1b\xff.txt")).write_text("About the data\n")
    words = [
        "reproduce",
        "--quick",
        "--seeds",
        "2",
        "--seed",
        "4",
        "--data",
        str(root / "data"),
        "--out",
        str(root / "out"),
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "report.html" in result.stdout
    assert "readme.txt:1" in result.stderr
    return root / "out"


@pytest.fixture(scope="module")
def results(folder):
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


def read_curves(folder, name):
    return list(csv.DictReader((folder / "curves" / f"{name}.csv").read_text(encoding="utf-8").splitlines()))


def test_results_have_every_number_with_its_settings(results):
    assert results["settings"]["seeds"] == [4, 5]
    assert results["settings"]["rates"] == RATES
    assert "--quick --seed 4 --seeds 2" in results["command"]
    assert [one["name"] for one in results["streams"]] == ["simulated", NAME]
    for stream in results["streams"]:
        for measure in ("ndcg@10", "ap"):
            assert {one["learner"] for one in stream["measures"][measure]} == set(CONTENDERS)
            for one in stream["measures"][measure]:
                assert len(one["by_rate"]) == len(RATES)
                per_seed = one["hindsight"]["per_seed"]
                assert one["hindsight"]["mean"] == pytest.approx(np.mean(per_seed))
                assert one["hindsight"]["spread"] == pytest.approx(np.std(per_seed, ddof=1))
                best = max(entry["mean"] for entry in one["by_rate"])
                assert one["hindsight"]["mean"] == pytest.approx(best)
    assert all(one["holds"] in (True, None) for one in results["streams"][0]["bounds"])
    assert [one["name"] for one in results["left_out"]] == ["readme\ufffd\ufffd.txt", "readme.txt"]


def test_every_figure_has_its_files_and_says_how_it_was_made(folder, results):
    assert len(results["figures"]) == 4 + 3 + 1
    for figure in results["figures"]:
        assert results["command"] in figure["about"]
        assert "2 seeds" in figure["about"]
        assert (folder / "figures" / f"{figure['name']}.png").read_bytes().startswith(b"\x89PNG")
        drawing = (folder / "figures" / f"{figure['name']}.svg").read_text(encoding="utf-8")
        ElementTree.fromstring(drawing)  # which raises where a name has left something that XML cannot hold
        assert escape(figure["about"], quote=False) in drawing
        rows = read_curves(folder, figure["name"])
        assert {"series", "x", "y", "low", "high"} == set(rows[0])
        for row in rows:
            assert np.isfinite([float(row["x"]), float(row["y"])]).all()
            assert row["low"] == "" or float(row["low"]) <= float(row["y"]) <= float(row["high"])


def test_curves_end_at_the_means(folder, results):
    for place, name in ((0, "ndcg-simulated"), (1, "ndcg-set-1")):
        ends = {row["series"]: float(row["y"]) for row in read_curves(folder, name)}
        for one in results["streams"][place]["measures"]["ndcg@10"]:
            if one["learner"] != "perceptron":
                assert ends[one["label"]] == pytest.approx(one["hindsight"]["mean"])


def test_the_rounds_of_the_page_are_in_the_results(results):
    walk = results["walkthrough"]
    expected = walk_through(4)
    assert walk["comparator"] == expected.ranker.tolist()
    for one, found in zip(expected.rounds, walk["rounds"], strict=True):
        assert found["documents"] == one.X.tolist()
        assert found["weights_after"] == one.after.tolist()
        assert found["ndcg"] == one.ndcg


def test_figures_are_numbered_and_say_what_is_to_be_seen(folder, results):
    text = (folder / "report.html").read_text(encoding="utf-8")
    numbers = [int(number) for number in re.findall(r"<b>Figure (\d+)\.</b>", text)]
    assert numbers == list(range(1, len(results["figures"]) + 3))
    for figure in results["figures"]:
        assert escape(figure["caption"]) in text
        assert results["command"] not in figure["caption"]
    for stream in results["streams"]:  # each is described once
        assert len(re.findall(re.escape(escape(stream["about"][1:])), text)) == 1


def test_nothing_empty_is_shown(folder):
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "–</td>" not in text
    assert 'id="paper"' not in text  # none of its data sets was run
    for rows in re.findall(r"<tbody>(.*?)</tbody>", text):
        assert "<td" in rows


def test_numbers_have_three_digits(folder):
    text = (folder / "report.html").read_text(encoding="utf-8")
    cells = re.findall(r'<td class="number[^"]*">([^<]+)</td>', text)
    assert len(cells) > 100
    for cell in cells:
        for number in re.findall(r"\d+\.\d+", cell.split("e-")[0]):
            assert len(number.replace(".", "").lstrip("0")) <= 3 or (number.startswith("1.") and len(number) <= 5), cell


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br", "input", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_asks_nobody(folder):
    text = (folder / "report.html").read_text(encoding="utf-8")
    tags = _Tags()
    tags.feed(text)
    assert not tags.open
    assert escape(NAME) in text
    for tag, attributes in tags.seen:
        if "src" in attributes:
            assert (folder / attributes["src"]).is_file()
        if "href" in attributes and tag == "a":
            target = attributes["href"]
            inside = target.startswith("#") and f'id="{target[1:]}"' in text
            assert inside or (folder / target).is_file()
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert "@import" not in text
    assert "url(" not in text


def test_an_output_that_is_a_file_is_refused_before_anything_is_run(tmp_path):
    (tmp_path / "out").write_text("")
    result = CliRunner().invoke(app, ["reproduce", "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "--out must be a folder" in result.stderr


@pytest.mark.deep
def test_a_second_report_leaves_nothing_of_the_first(folder, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(folder, out)
    (out / "figures" / "mine.png").write_text("")
    assert CliRunner().invoke(app, ["reproduce", "--quick", "--seeds", "1", "--out", str(out)]).exit_code == 0
    kept = {figure["name"] for figure in json.loads((out / "results.json").read_text(encoding="utf-8"))["figures"]}
    assert {path.stem for path in (out / "figures").iterdir()} == kept | {"mine"}
    assert {path.stem for path in (out / "curves").iterdir()} == kept


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_run(tmp_path):
    (tmp_path / "report.html").mkdir()
    result = CliRunner().invoke(app, ["reproduce", "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert "report.html" in result.stderr


def test_data_that_is_no_folder_is_refused(tmp_path):
    result = CliRunner().invoke(app, ["reproduce", "--data", str(tmp_path / "none"), "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "--data must be a folder" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def browser():
    if BROWSER is None:
        pytest.skip("no chromium is installed")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def open_page(browser, folder):
    """Open the page at some width; in the end nothing may have been complained about or asked of others."""
    opened, complaints, asked = [], [], []

    def open_at(width, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto((folder / "report.html").as_uri())
        page.wait_for_selector("figure svg path.curve")
        opened.append(page)
        return page

    yield open_at
    for page in opened:
        page.close()
    assert not complaints
    assert all(url.startswith(("file:", "data:")) for url in asked)


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1200, "light"),
        (400, "dark"),
        pytest.param(1200, "dark", marks=pytest.mark.deep),
        pytest.param(400, "light", marks=pytest.mark.deep),
    ],
)
def test_figures_are_drawn_and_nothing_scrolls_sideways(open_page, results, width, scheme):
    page = open_page(width, scheme)
    charts = page.locator("figure[data-chart]").all()
    assert len(charts) == len(results["figures"])
    for figure in charts:
        assert figure.locator("path.curve").count() >= 3
        box = figure.locator("svg").bounding_box()
        assert box["width"] > 300
        assert box["height"] > 200
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    red, green, blue = map(
        int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3]
    )
    assert (red + green + blue > 600) == (scheme == "light")
    page.mouse.wheel(500, 0)
    assert page.evaluate("window.scrollX") == 0


def test_labels_do_not_leave_the_drawing(open_page):
    for width in (1200, 720, 400):
        page = open_page(width)
        for figure in page.locator("figure[data-chart] svg").all():
            outside = figure.evaluate(
                "svg => { const box = svg.getBoundingClientRect();"
                "return [...svg.querySelectorAll('text')].filter(t => { const b = t.getBoundingClientRect();"
                "return b.left < box.left - 1 || b.right > box.right + 1; })"
                ".map(t => t.textContent); }"
            )
            assert outside == []


def test_hovering_shows_the_values(open_page, folder):
    page = open_page(1200)
    plot = page.locator("figure[data-chart='ndcg-simulated'] .plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] / 2)
    tip = plot.locator(".tip")
    assert tip.is_visible()
    text = tip.inner_text()
    seen = int(re.search(r"queries seen: ([\d,]+)", text).group(1).replace(",", ""))
    here = [row for row in read_curves(folder, "ndcg-simulated") if float(row["x"]) == seen]
    assert len(here) == 4
    for row in here:
        assert re.search(re.escape(row["series"]) + rf"\s+{re.escape(three_digits(float(row['y'])))}", text)
    page.mouse.move(5, 5)
    assert tip.is_hidden()


def shown_rounds(page):
    return [one.get_attribute("data-round") for one in page.locator("#figure-1 .round").all() if one.is_visible()]


def test_rounds_are_stepped_through_by_keys_buttons_and_marks(open_page):
    page = open_page(1200)
    walk = walk_through(4)
    assert shown_rounds(page) == [str(walk.opening + 1)]
    slider = page.locator("#figure-1 input")
    slider.focus()
    page.keyboard.press("Home")
    assert shown_rounds(page) == ["1"]
    assert "all documents are tied" in page.locator("#figure-1 .round.now").inner_text()
    assert page.get_by_label("Previous round").get_attribute("aria-disabled") == "true"
    page.keyboard.press("ArrowRight")
    page.get_by_label("Next round").click()
    assert shown_rounds(page) == ["3"]
    kind = "a mistake" if walk.rounds[2].mistakes else "nothing wrong"
    assert slider.get_attribute("aria-valuetext") == f"Round 3 of 16: {kind}"
    page.locator(".kinds i").nth(15).click()
    assert shown_rounds(page) == ["16"]
    assert slider.input_value() == "16"
    assert page.get_by_label("Next round").get_attribute("aria-disabled") == "true"


def test_moments_of_clicks_are_stepped_through_on_their_own(open_page):
    for width in (1200, 390):
        page = open_page(width)
        moments = page.locator("#clicks .round")
        assert [one.is_visible() for one in moments.all()] == [False] * (len(MOMENTS) - 1) + [True]
        page.get_by_label("Fewer lists").click()
        assert [one.is_visible() for one in moments.all()] == [False] * (len(MOMENTS) - 2) + [True, False]
        assert shown_rounds(page) == [str(walk_through(4).opening + 1)]
        shown = moments.nth(len(MOMENTS) - 2)
        assert shown.locator("h3").inner_text() == f"After {MOMENTS[-2]:,} lists"
        for one in shown.locator("svg").all():  # no label leaves the drawing
            edge = one.bounding_box()
            for label in one.locator("text").all():
                box = label.bounding_box()
                assert edge["x"] <= box["x"]
                assert box["x"] + box["width"] <= edge["x"] + edge["width"] + 1


def test_the_last_round_leaves_the_focus_where_it_is(open_page):
    page = open_page(1200)
    page.get_by_label("Next round").focus()
    for _ in range(20):
        page.keyboard.press("Enter")
    assert shown_rounds(page) == ["16"]
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Next round"


def test_numbers_of_findings_do_not_run_into_their_sentences(open_page):
    page = open_page(360)
    for one in page.locator(".findings li").all():
        number = one.locator("b")
        assert number.evaluate("one => one.scrollWidth <= one.clientWidth + 1 || !one.clientWidth")
        end, start = number.evaluate(
            "one => { const words = document.createRange(); words.selectNodeContents(one);"
            "const after = document.createRange(); after.selectNodeContents(one.nextSibling);"
            "return [words.getBoundingClientRect().right, after.getBoundingClientRect().left]; }"
        )
        assert end < start


def test_on_paper_no_table_leaves_the_page(open_page):
    page = open_page(680)
    page.emulate_media(media="print")
    assert page.evaluate("[...document.querySelectorAll('table')].every(one => one.offsetWidth <= innerWidth)")


def test_the_page_opens_with_a_query(open_page):
    for width in (1280, 390):
        page = open_page(width)
        box = page.locator(".round.now svg").first.bounding_box()
        assert box["y"] < 620
        assert box["x"] + box["width"] <= width


def test_without_script_and_on_paper_there_are_still_pictures(browser, folder, open_page):
    stills = [str(k + 1) for k in walk_through(4).stills]
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((folder / "report.html").as_uri())
    assert shown_rounds(page) == stills
    assert not any(one.is_visible() for one in page.locator(".steps").all())
    for image in page.locator(".plot img").all():
        assert image.bounding_box()["height"] > 100
    context.close()
    page = open_page(1200)
    page.emulate_media(media="print")
    assert shown_rounds(page) == stills
    assert not any(one.is_visible() for one in page.locator(".steps").all())


def test_curves_have_names_at_their_ends_at_every_width(open_page):
    for width in (1200, 390):
        page = open_page(width)
        for figure in page.locator("figure[data-chart]").all():
            assert figure.locator("text.end").count() == figure.locator("path.curve").count()


def test_wide_tables_say_that_they_scroll(open_page):
    page = open_page(390)
    said = 0
    for one in page.locator(".wide").all():
        scrolls = one.evaluate("one => one.scrollWidth > one.clientWidth + 1")
        text = one.evaluate("one => getComputedStyle(one, '::before').content")
        assert ("scrolls sideways" in text) == scrolls
        said += scrolls
    assert said > 0


def test_a_tap_shows_the_values_and_leaves_them(browser, folder):
    context = browser.new_context(viewport={"width": 400, "height": 800}, has_touch=True)
    page = context.new_page()
    page.goto((folder / "report.html").as_uri())
    plot = page.locator("figure[data-chart='ndcg-simulated'] .plot")
    plot.tap()
    page.wait_for_timeout(100)
    assert plot.locator(".tip").is_visible()
    context.close()


def test_arrow_keys_show_the_values_too(open_page):
    page = open_page(1200)
    plot = page.locator("figure[data-chart='ndcg-simulated'] .plot")
    plot.focus()
    page.keyboard.press("ArrowRight")
    assert "queries seen: 1\n" in plot.locator(".tip").inner_text()
    page.keyboard.press("ArrowRight")
    assert "queries seen: 2\n" in plot.locator(".tip").inner_text()
    page.keyboard.press("Escape")
    assert plot.locator(".tip").is_hidden()


def test_curves_can_be_switched_off(open_page):
    page = open_page(1200)
    figure = page.locator("figure[data-chart='losses-and-bounds']")
    figure.get_by_text("Show or hide curves").click()
    before = figure.locator("path.curve").count()
    for button in figure.locator(".keys button").all():
        button.click()
        assert button.get_attribute("aria-pressed") == "false"
    assert figure.locator("path.curve").count() == 0
    assert "No curve" in figure.locator("svg").text_content()
    figure.locator(".keys button").first.click()
    assert figure.locator("path.curve").count() == 1 < before


def test_printing_is_on_white_even_from_a_dark_screen(open_page):
    page = open_page(1200, "dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    page.set_viewport_size({"width": 680, "height": 1000})
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth") <= 680
    assert page.pdf(format="A4").startswith(b"%PDF")
