"""The live page: what it shows, in a real browser, and the events behind it."""

import http.client
import json
import os
import re
import shutil
import signal
import time
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from support.serving import send

import perceptrank as pr
from perceptrank.learners.learning import measure_of
from perceptrank.serve import Service
from perceptrank.serve.documents import Document
from perceptrank.serve.http.access import Access
from perceptrank.serve.log.log import Row
from perceptrank.serve.log.records import AnswerEntry, as_bytes
from perceptrank.serve.page import live as live_module
from perceptrank.serve.page import progress as progress_module
from perceptrank.serve.page.findings import Findings, certificate, learning, margin_of
from perceptrank.serve.page.live import Live, Times
from perceptrank.serve.page.progress import Duels, Progress
from perceptrank.serve.replay import Current

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
EVIL = "<img src=x onerror=alert(1)>"
NAMES = ("title", "price", EVIL)


def queries(n, seed=0):
    """Queries whose grades follow the first two features, by id and as arrays."""
    draws = np.random.default_rng(seed)
    for _ in range(n):
        X = draws.normal(size=(6, 3))
        yield X, np.digitize(X[:, 0] - X[:, 1] + draws.normal(size=6) / 2, [0.0, 1.5]).astype(float)


def teach(url, n, seed=0, **settings):
    """Rank and answer queries over HTTP."""
    with pr.Client(url, **settings) as client:
        for k, (X, grades) in enumerate(queries(n, seed)):
            names = [f"d{j}{EVIL}" for j in range(len(X))]
            documents = {name: dict(zip(NAMES, row, strict=True)) for name, row in zip(names, X.tolist(), strict=True)}
            ranked = client.rank(documents)
            client.feedback(ranked["ranking_id"], dict(zip(names, grades, strict=True)), event_id=f"e{seed}-{k}{EVIL}")


def entry(k, X, grades, weight=1.0):
    names = [f"d{j}" for j in range(len(X))]
    return Row(k, b"", b""), AnswerEntry(0, f"e{k}", None, names, as_bytes(X), as_bytes(grades), weight)


def fed(entries, size=1):
    """Progress after entries, learned in blocks of a size, and the model after them."""
    current = Current.of(pr.ListwisePerceptron())
    progress = Progress(current)
    for place in range(0, len(entries), size):
        block = entries[place : place + size]
        after = current.after_all(block)
        progress.watch(current, after, block)
        current = after
    progress.digest(60.0)
    return progress, current


# What is measured


def test_the_progressive_measure_is_that_of_learning_offline():
    rounds = list(queries(40))
    progress, _ = fed([entry(k, X, grades) for k, (X, grades) in enumerate(rounds, 1)])
    X, relevance = (np.concatenate(parts) for parts in zip(*rounds, strict=True))
    trace = pr.ListwisePerceptron().learn(pr.QueryStream.from_arrays(X, relevance, group=[6] * 40))
    measure = trace.measures[0]
    assert progress.mean == pytest.approx(trace.mean(measure))
    assert progress.window == pytest.approx(trace.window_mean(measure, progress_module.WINDOW)[-1])
    shown = progress.as_plain()
    assert (shown["measure"], shown["measured"], shown["skipped"]) == (str(measure), 40, 0)
    assert [mean for _, _, mean in shown["points"]] == pytest.approx(trace.running_mean(measure), abs=1e-6)
    values = trace.values(measure)
    worst = progress.worst()
    assert worst[0]["value"] == pytest.approx(values.min())
    assert worst[0]["event_id"] == f"e{values.argmin() + 1}"
    assert [query["value"] for query in worst] == sorted(query["value"] for query in worst)


def test_a_block_is_measured_by_the_model_before_it():
    rounds = list(queries(8))
    progress, _ = fed([entry(k, X, grades) for k, (X, grades) in enumerate(rounds, 1)], size=4)
    model, values = pr.ListwisePerceptron(), []
    for place in (0, 4):
        X, relevance = (np.concatenate(parts) for parts in zip(*rounds[place : place + 4], strict=True))
        stream = pr.QueryStream.from_arrays(X, relevance, group=[6] * 4)
        values += measure_of(model).per_query(model.predict(stream), relevance, stream.offsets).tolist()
        model.learn(stream)
    assert progress.mean == pytest.approx(np.mean(values))


def test_weights_count_and_queries_without_a_value_do_not():
    (X, grades), (other, more) = queries(2)
    entries = [
        entry(1, X, grades, 3.0),
        entry(2, other, np.zeros(6)),
        entry(3, other, more, 0.0),
        entry(4, other, more),
    ]
    progress, _ = fed(entries)
    model = pr.ListwisePerceptron()
    values = []
    for features, answer, weight in ((X, grades, 3.0), (other, np.zeros(6), 1.0), (other, more, 1.0)):
        offsets = np.array([0, 6])
        values.append(measure_of(model).per_query(model.predict(features), answer, offsets)[0])
        model.learn_one(features, answer, weight)
    assert np.isnan(values[1])
    assert (progress.measured, progress.left_out) == (2, 2)
    assert progress.mean == pytest.approx((3 * values[0] + values[2]) / 4)


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(progress_module, "WAITING_BYTES", 50_000)
    progress = Progress(Current.of(pr.ListwisePerceptron()))
    (X, grades), *_ = queries(1)
    current = Current.of(pr.ListwisePerceptron())
    for k in range(1, 101):
        progress.watch(current, Current(current.learner, answers=k, n_features=3), [entry(k, X, grades)])
    assert progress._size <= 50_000
    assert len(progress._waiting) + progress.skipped == 100
    progress.digest(60.0)
    assert progress._size == 0
    for k in range(20_000):
        progress._count(k, 0.5, 1.0)
    points = progress.as_plain()["points"]
    assert len(points) <= progress_module.POINTS + 1
    assert [x for x, *_ in points] == sorted(x for x, *_ in points)
    assert len(progress._values) == progress_module.WINDOW
    times = Times()
    for k in range(5000):
        times.add(k)
    assert (times.count, len(times.newest)) == (5000, 1024)
    assert times.quantile(0.5) == 5000 - 512
    assert Times().quantile(0.5) is None


def test_the_certificate_is_one_true_sentence():
    assert "nothing to certify" in learning(Current.of(pr.ListwisePerceptron()))["certificate"]
    _, current = fed([entry(k, X, grades) for k, (X, grades) in enumerate(queries(30), 1)])
    model = current.learner
    found, sentence = model.certificate(margin=1.0), certificate(model)
    lost = next(one for one in found.promises if one.quantity == "loss")
    assert f"have lost {lost.happened:,.4g}, at most {lost.bound:,.4g} by its theorem, whatever" in sentence
    largest = found.norm / found.mass
    assert f"a margin above {largest:,.3g}." in sentence
    assert model.certificate(margin=largest * 0.999).promises[0].holds  # so that it is no mistake to say so
    assert not model.certificate(margin=largest * 1.01).promises[0].holds
    plain = pr.ListwisePerceptron(average=False)
    plain.learn_one(np.eye(2), [0, 1])
    assert "lost at most S = 1 by the current weights" in certificate(plain)
    other = pr.RankNet()
    other.learn_one(np.eye(2), [0, 1])
    assert certificate(other) == "There is no certificate: ranknet has no theorem of this kind."
    shown = learning(current)
    assert (shown["rounds"], shown["updates"]) == (model.n_rounds, model.n_updates)


def test_the_margin_is_that_of_the_next_round():
    model = pr.ListwisePerceptron(transforms=None, margin=0.25)
    model.learn_one(np.eye(2), [0, 1])
    assert margin_of(model) == 0.25
    model = pr.ListwisePerceptron(transforms=None, relative_margin=2.0)
    assert margin_of(model) is None
    model.learn_one(np.eye(2), [0, 1])
    assert margin_of(model) == pytest.approx(2.0 * 2.0)  # the only step was of squared length 1² + 1²
    assert margin_of(pr.RankNet()) is None


def test_what_moved_today_is_counted_from_the_last_version_of_yesterday(tmp_path):
    def learn(service, places):
        for k in places:
            documents = [Document("a", {"x": 1.0, "y": 0.0}), Document("b", {"x": 0.0, "y": 1.0})]
            grades = {"a": 1.0} if k < 5 else {"b": 1.0}
            service.ranker("default").learn(documents, grades, event_id=str(k)).result(10)
        service.ranker("default").flush()

    with Service(tmp_path, {"default": pr.ListwisePerceptron(transforms=None)}) as service:
        learn(service, range(5))
        assert Findings(service.ranker("default")).as_plain()["changes"] == []  # since now
    for path in (tmp_path / "default" / "versions").iterdir():
        os.utime(path, (time.time() - 86_400, time.time() - 86_400))
    today = time.time() // 86_400 * 86_400
    with Service(tmp_path) as service:
        learn(service, range(5, 100))
        found = Findings(service.ranker("default")).as_plain()
    assert found["since"] in (today, time.time() // 86_400 * 86_400)  # midnight may come in between
    assert {one["feature"] for one in found["features"]} == {"x", "y"}
    assert found["changes"]
    assert found["changes"][0]["kind"] in ("changed sign", "shrank", "grew", "disappeared")


def standing(name="slam", answers=10, since=4, **more):
    """How a challenger stands, as `ServedRanker.standings` says it."""
    known = {
        "name": name,
        "algorithm": "slam",
        "measure": "ndcg@10",
        "since_version": since,
        "answers": answers,
        "incumbent_mean": 0.75,
        "mean": 0.75 + answers / 1000,
        "difference": answers / 1000,
        "interval": [0.001, 0.02],
        "better": True,
    }
    return known | more


def standings(*challengers):
    incumbent = {"algorithm": "listwise", "learns": True}
    known = {"incumbent": incumbent, "error": 0.05, "automatic": False, "last_promotion": None}
    return known | {"challengers": list(challengers)}


def test_a_ranker_with_challengers_shows_them(tmp_path):
    with Service(tmp_path) as service:
        live = Live(service)
        try:
            assert live.frame("default")["standings"] is None
            service.ranker("default").standings = lambda: standings(standing())
            live._sampled -= 10
            live._step(time.monotonic())
            frame = live.frame("default")
            assert frame["standings"]["challengers"][0]["name"] == "slam"
            assert frame["duels"] == {"slam": [(10, 0.75, 0.76)]}
            service.ranker("default").standings = standings
            assert live.frame("default")["standings"] is None
        finally:
            live.close()
        assert service.ranker("default").thread.watch is None


def test_curves_of_challengers_begin_anew_with_them():
    duels = Duels()
    for answers in (1, 2, 2, 3):
        duels.add(standings(standing("a", answers), standing("b", answers, mean=None)))
    assert [x for x, *_ in duels.as_plain()["a"]] == [1, 2, 3]
    assert duels.as_plain()["b"] == []
    duels.add(standings(standing("a", 1, since=9)))
    assert duels.as_plain() == {"a": [(1, 0.75, 0.751)]}
    duels.add(None)
    assert duels.as_plain() == {}


# Over HTTP


@pytest.fixture(scope="module")
def running(nursery, tmp_path_factory):
    made = nursery.start(tmp_path_factory.mktemp("watched"), models={"default": "listwise", "second": "slam"})
    teach(made.url, 60)
    yield made
    made.end()


class Tags(HTMLParser):
    """The tags of a page, and the text within scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.inline = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] in ("script", "style"):
            self.inline += data.strip()


def test_the_policy_allows_our_own_files_only(running):
    status, headers, content = send(running, "GET", "/")
    assert status == 200
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert headers["x-content-type-options"] == "nosniff"
    assert not any(name.lower().startswith("access-control") for name in headers)
    page = Tags(content.decode())
    assert page.inline == ""
    assert not any(name == "style" or name.startswith("on") for _, found in page.tags for name in found)
    addresses = [found.get("src") or found.get("href") or "" for _, found in page.tags]
    assert all(not re.match(r"(\w+:)?//|/|javascript:", one) for one in addresses)
    script = send(running, "GET", "/page.js")[2].decode()
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|https?://(?!www.w3.org/2000/svg)", script
    )
    tag = headers["etag"]
    assert send(running, "GET", "/", headers={"If-None-Match": tag})[0] == 304


def first_frame(running, path="/live", headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)
    connection.request("GET", path, headers=headers or {})
    response = connection.getresponse()
    return connection, response


def test_events_are_frames_of_a_ranker(running):
    connection, response = first_frame(running)
    try:
        assert (response.status, response.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert response.headers["cache-control"] == "no-store"
        line = response.readline()
        assert response.readline() == b"\n"
        frame = json.loads(line.removeprefix(b"data: "))
        assert (frame["ranker"], frame["rankers"]) == ("default", ["default", "second"])
        assert frame["status"]["answers"] == 60
        later = json.loads(response.readline().removeprefix(b"data: "))
        assert later["time"] > frame["time"]
    finally:
        connection.close()
    connection, response = first_frame(running, "/live/second")
    assert json.loads(response.readline().removeprefix(b"data: "))["ranker"] == "second"
    connection.close()


def test_pages_that_are_open_are_limited_and_left_ones_forgotten(running):
    opened = [first_frame(running) for _ in range(live_module.MOST_WATCHERS)]
    assert all(response.status == 200 for _, response in opened)
    status, _, content = send(running, "GET", "/live")
    assert (status, json.loads(content)["error"]["kind"]) == (503, "overloaded")
    for connection, response in opened:
        response.close()
        connection.close()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        connection, response = first_frame(running)
        status = response.status
        response.close()
        connection.close()
        if status == 200:
            break
        time.sleep(0.1)
    assert status == 200


def test_an_open_page_does_not_hold_up_a_stop(nursery, tmp_path):
    made = nursery.start(tmp_path)
    connection, response = first_frame(made)
    response.readline()
    start = time.monotonic()
    made.end(seconds=20)
    assert time.monotonic() - start < 10
    connection.close()


def test_events_need_a_token_with_the_scope(nursery, tmp_path):
    access = Access(tmp_path)
    rank, watch, admin = (access.add(name, [name]) for name in ("rank", "watch", "admin"))
    made = nursery.start(tmp_path)

    def status(token):
        connection, response = first_frame(made, headers={"Authorization": f"Bearer {token}"} if token else {})
        try:
            return response.status
        finally:
            response.close()
            connection.close()

    assert [status(one) for one in (None, "x", rank, watch, admin)] == [401, 401, 403, 200, 200]
    assert send(made, "GET", "/")[0] == 200
    with pr.Client(made.url, token=watch) as client, pytest.raises(PermissionError, match="lacks the scope 'admin'"):
        client.versions()
    made.end()


# In a browser


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
def open_page(browser):
    """Open a page at some width; in the end nothing may have been complained about, or asked of others."""
    contexts, complaints, asked = [], [], []

    def open_at(url, width=1200, scheme="light", expected=()):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append((context, url, expected))
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("console", lambda message: complaints.append((message.text, expected)))
        page.on("pageerror", lambda error: complaints.append((str(error), ())))
        page.on("dialog", lambda dialog: complaints.append((dialog.message, ())))
        page.on("request", lambda request: asked.append((request.url, url)))
        page.goto(url)
        return page

    yield open_at
    for context, *_ in contexts:
        context.close()
    assert [text for text, expected in complaints if not any(one in text for one in expected)] == []
    assert all(one.startswith((url, "data:,")) for one, url in asked)
    assert not any("token" in one.lower() or "?" in one for one, _ in asked)


def wait_for(page, selector, text):
    from playwright.sync_api import expect  # the policy forbids to wait for a script in the page

    expect(page.locator(selector)).to_have_text(text, timeout=30_000)


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1400, "light"),
        (360, "dark"),
        pytest.param(360, "light", marks=pytest.mark.deep),
        pytest.param(800, "light", marks=pytest.mark.deep),
        pytest.param(800, "dark", marks=pytest.mark.deep),
        pytest.param(1400, "dark", marks=pytest.mark.deep),
    ],
)
def test_the_page_shows_it_all_and_nothing_scrolls_sideways(running, open_page, width, scheme):
    page = open_page(running.url, width, scheme)
    page.wait_for_selector("#progress-plot path.curve")
    assert page.locator("#answers").inner_text() == "60"
    assert re.fullmatch(r"0\.\d{4}|1\.0000", page.locator("#window").inner_text())
    assert re.search(
        r"\d+ updates \(\d+\.\d %\) in 60 rounds\. Its margin is now", page.locator("#updates").inner_text()
    )
    assert page.locator("#certificate").inner_text().startswith("The rankings of 60 rounds have lost")
    assert page.locator("#features tbody tr").count() == 3
    assert EVIL in page.locator("#features").inner_text()
    assert EVIL in page.locator("#worst-table").inner_text()
    assert page.locator("main img").count() == 0
    assert re.search(r"\d KiB|\d MiB", page.locator("#log").inner_text())
    assert page.locator("#times tbody tr").count() == 4
    assert page.locator("#standings").is_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    red, green, blue = map(
        int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3]
    )
    assert (red + green + blue > 600) == (scheme == "light")
    outside = page.evaluate(
        "[...document.querySelectorAll('.plot svg')].flatMap(svg => { const box = svg.getBoundingClientRect();"
        "return [...svg.querySelectorAll('text')].filter(t => { const b = t.getBoundingClientRect();"
        "return b.left < box.left - 1 || b.right > box.right + 1; }).map(t => t.textContent); })"
    )
    assert outside == []


def test_a_screen_reader_finds_its_way(running, open_page):
    page = open_page(running.url)
    page.wait_for_selector("#progress-plot path.curve")
    levels = page.evaluate(
        "[...document.querySelectorAll('h1, h2, h3')].filter(h => h.offsetParent).map(h => +h.tagName[1])"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    live = page.evaluate("[...document.querySelectorAll('[aria-live], [role=status], [role=alert]')].map(e => e.id)")
    assert live == ["status", "problem", "warning"]  # not what changes every second
    assert page.get_by_role("status").inner_text() == "Live. Learning from answers."
    pictures = page.get_by_role("img")
    assert pictures.count() == 2
    for picture in pictures.all():
        assert "The table below lists the values." in picture.get_attribute("aria-label")
    for table in page.locator("table:visible").all():
        assert table.locator("caption").inner_text()
        assert table.locator("thead th[scope=col]").count() > 1
    page.get_by_text("The curve as a table").click()
    assert page.locator("#progress-table tbody tr").count() >= 10
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement !== document.body")


def test_another_ranker_can_be_chosen(running, open_page):
    page = open_page(running.url)
    page.wait_for_selector("#progress-plot path.curve")
    page.get_by_label("Ranker").select_option("second")
    wait_for(page, "#title", "second: slam")
    assert page.locator("#answers").inner_text() == "0"
    assert "nothing to certify" in page.locator("#certificate").inner_text()
    page.get_by_label("Ranker").select_option("default")
    wait_for(page, "#answers", "60")


def test_challengers_are_compared(running, open_page):
    page = open_page(running.url, width=360)
    page.wait_for_selector("#progress-plot path.curve")
    connection, response = first_frame(running)
    frame = json.loads(response.readline().removeprefix(b"data: "))
    response.close()
    connection.close()
    worse = standing(EVIL, answers=7, mean=0.7, difference=-0.05, interval=[-0.08, -0.01], better=False)
    frame["standings"] = standings(standing(), worse)
    frame["duels"] = {"slam": [[1, 0.5, 0.6], [2, 0.5, 0.7]], EVIL: [[1, 0.5, 0.4], [2, 0.5, 0.3]]}
    page.route(
        "**/live", lambda route: route.fulfill(body=f"data: {json.dumps(frame)}\n\n", content_type="text/event-stream")
    )
    page.reload()
    page.wait_for_selector("#duels-plot path.curve")
    rows = page.locator("#standings-table tbody tr")
    assert [cell.strip() for cell in rows.nth(0).inner_text().split("\t")[1:-2]] == [
        "better",
        "+0.0100",
        "+0.0010 to +0.0200",
        "",
        "0.7600",
        "0.7500",
    ]
    assert rows.nth(1).locator("th").inner_text() == f"{EVIL} (slam)"
    verdict = rows.nth(1).locator("td").first
    assert verdict.inner_text() == "worse"
    box = verdict.bounding_box()
    assert box["x"] + box["width"] <= 360  # on a phone it is seen without moving the table
    text = page.locator("#standings").inner_text()
    assert "Current model: listwise (learns). Challengers are promoted by hand only." in text
    assert page.locator("#duels-plot path.curve").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_model_that_stays_as_it_is_is_not_said_to_learn(nursery, tmp_path, open_page):
    shadow = {"weights": {"title": 1.0}, "challengers": {"new": "listwise", "slow": "slam"}}
    made = nursery.start(tmp_path, shadow=shadow)
    teach(made.url, 40)
    page = open_page(made.url, width=360)
    wait_for(page, "#answers", "40")
    wait_for(page, "#updates", "It ranks but does not learn.")
    assert page.locator("#learned-note").inner_text().startswith("The model does not learn")
    rows = page.locator("#standings-table tbody tr")
    assert [rows.nth(k).locator("th").inner_text() for k in range(2)] == ["new (listwise)", "slow (slam)"]
    assert "Current model: fixed (does not learn)." in page.locator("#standings-text").inner_text()
    with pr.Client(made.url) as client:
        client.promote_challenger("new")
    wait_for(page, "#title", "listwise")
    assert "new was promoted at version" in page.locator("#standings-text").inner_text()
    assert rows.count() == 1
    made.end()


def test_it_moves_and_comes_back_after_the_service_was_killed(nursery, tmp_path, open_page):
    made = nursery.start(tmp_path)
    teach(made.url, 30)
    page = open_page(
        made.url, expected=("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET")
    )
    wait_for(page, "#answers", "30")
    teach(made.url, 5, seed=1)
    wait_for(page, "#answers", "35")
    made.end(signal.SIGKILL)
    wait_for(page, "#state", re.compile("^The service cannot be reached"))
    assert page.locator("#answers").inner_text() == "35"  # what is known stays
    again = nursery.start(tmp_path, port=made.port)
    teach(again.url, 7, seed=2)
    wait_for(page, "#state", re.compile("^Live"))
    wait_for(page, "#answers", "42")
    page.get_by_text("The curve as a table").click()
    wait_for(page, "#progress-table tbody tr:first-child th", "42")
    first = page.locator("#progress-table tbody th").last.inner_text()
    assert int(first) < 35  # the curve of before is still there
    again.end()


def test_a_token_is_asked_for_and_kept_in_the_session_alone(nursery, tmp_path, open_page):
    access = Access(tmp_path)
    watch, rank = access.add("wall", ["watch"]), access.add("engine", ["rank"])
    made = nursery.start(tmp_path)
    page = open_page(made.url, expected=("401", "403"))
    field = page.get_by_label("Token with the scope watch or admin")
    field.wait_for()
    assert page.locator("#content").is_hidden()
    for wrong, refusal in (
        ("nonsense", "the token is not known"),
        (rank, "the token 'engine' lacks the scope 'watch'"),
    ):
        field.fill(wrong)
        page.get_by_role("button", name="Watch").click()
        page.get_by_text(refusal).wait_for()
    field.fill(watch)
    page.keyboard.press("Enter")
    page.locator("#content").wait_for()
    assert field.is_hidden()
    assert page.evaluate("[Object.values(sessionStorage), localStorage.length, document.cookie]") == [[watch], 0, ""]
    assert page.url == made.url + "/"
    page.reload()
    page.locator("#content").wait_for()
    made.end()
