"use strict";

// Text comes from others: it is only ever set as text, never as HTML.
const at = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const KEPT = 600; // points of the curve that outlive a restart of the service
const SILENCE = 8000; // milliseconds without a frame that mean a broken connection

const state = { ranker: null, older: [], frame: null, wait: 500, abort: null };

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children.map((child) => (child instanceof Node ? child : document.createTextNode(String(child)))));
  return made;
}

function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function put(id, text) {
  const place = at(id);
  if (place.textContent !== text) place.textContent = text; // so that nothing is read aloud again
}

// Numbers

const whole = (value) => Math.round(value).toLocaleString("en");
const measure = (value) => (value === null || value === undefined ? "–" : value.toFixed(4));
const percent = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`);
const clock = (seconds) => new Date(1000 * seconds).toLocaleTimeString("en-GB");
const moment = (seconds) => new Date(1000 * seconds).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
const plural = (n, one, many) => `${whole(n)} ${n === 1 ? one : many}`;

function brief(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return value.toExponential(2);
  return size >= 100 ? whole(value) : String(Number(value.toPrecision(3)));
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  return seconds < 1 ? `${(1000 * seconds).toFixed(seconds < 0.01 ? 2 : 0)} ms` : `${seconds.toFixed(1)} s`;
}

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; n >= 1024 && unit < 4; unit++) n /= 1024;
  return `${unit ? n.toFixed(1) : n} ${units[unit]}`;
}

// Tables: only what has changed is replaced, so that a reader's place in them stays

function fill(id, caption, headings, rows, none) {
  const table = at(id), key = JSON.stringify([caption, headings, rows]);
  if (table.dataset.key === key) return;
  table.dataset.key = key;
  const head = element("tr", {}, ...headings.map(([text, kind]) => element("th", { scope: "col", class: kind || "" }, text)));
  const body = rows.map((row) => element("tr", {}, ...row.map((cell, column) => {
    const [, kind] = headings[column];
    if (kind === "bar") return element("td", {}, bar(cell));
    if (kind === "interval") return element("td", {}, interval(...cell));
    return column ? element("td", { class: kind || "" }, cell) : element("th", { scope: "row", class: kind || "" }, cell);
  })));
  if (!rows.length) body.push(element("tr", {}, element("td", { colspan: headings.length }, none || "Nothing yet.")));
  table.replaceChildren(element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...body));
}

function bar([share, kind]) {
  const made = shape("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" });
  made.append(shape("rect", { class: kind, x: 0, y: 0, width: 100 * Math.min(1, Math.max(0, share)), height: 8, rx: 1 }));
  return made;
}

// Charts: lines over numbers

function ticks(low, high, n) {
  const step = (high - low) / n, size = 10 ** Math.floor(Math.log10(step));
  const nice = [1, 2, 5, 10].map((one) => one * size).find((one) => one >= step);
  const found = [];
  for (let value = Math.ceil(low / nice) * nice; value <= high + nice * 1e-9; value += nice) found.push(Number(value.toPrecision(12)));
  return found;
}

function draw(id, series, options) {
  const place = at(id), width = Math.max(280, place.clientWidth), height = options.height;
  const known = series.flatMap((one) => one.points).filter(([, y]) => y !== null);
  const from = Math.min(...known.map(([x]) => x)) + (options.settle || 0); // means of few answers would set the scale
  const late = known.filter(([x]) => x >= from), all = late.length > 20 ? late : known;
  place.replaceChildren();
  if (all.length < 2) {
    place.append(element("p", { class: "soft" }, options.none));
    return;
  }
  const left = 52, right = 12, top = 10, bottom = 26;
  let [x0, x1] = [Math.min(...all.map(([x]) => x)), Math.max(...all.map(([x]) => x))];
  let [y0, y1] = [options.zero ? 0 : Math.min(...all.map(([, y]) => y)), Math.max(...all.map(([, y]) => y))];
  if (x1 === x0) x1 = x0 + 1;
  if (y1 - y0 < 1e-9) [y0, y1] = options.zero ? [0, y1 || 1] : [y0 - 0.05, y1 + 0.05];
  const across = (x) => left + ((x - x0) / (x1 - x0)) * (width - left - right);
  const up = (y) => height - bottom - ((y - y0) / (y1 - y0)) * (height - top - bottom);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": options.label });
  for (const y of ticks(y0, y1, 4)) {
    svg.append(shape("line", { class: "grid", x1: left, x2: width - right, y1: up(y), y2: up(y) }));
    svg.append(shape("text", { class: "label", x: left - 6, y: up(y) + 4, "text-anchor": "end" }, options.y(y)));
  }
  const shown = options.times ? [x0, (x0 + x1) / 2, x1] : ticks(x0, x1, width < 500 ? 3 : 6).filter(Number.isInteger);
  shown.forEach((x) => {
    const anchor = across(x) > width - 60 ? "end" : across(x) < left + 25 ? "start" : "middle";
    svg.append(shape("text", { class: "label", x: across(x), y: height - 7, "text-anchor": anchor }, options.x(x)));
  });
  for (const one of series) {
    const steps = one.points.filter(([x, y]) => y !== null && x >= x0).map(([x, y], k) => `${k ? "L" : "M"}${across(x).toFixed(1)} ${up(y).toFixed(1)}`);
    svg.append(shape("path", { class: `curve ${one.kind}`, d: steps.join("") }));
  }
  place.append(svg);
}

function keys(id, series) {
  const text = JSON.stringify(series.map((one) => [one.name, one.kind]));
  if (at(id).dataset.key === text) return;
  at(id).dataset.key = text;
  at(id).replaceChildren(...series.map((one) => element("span", {}, element("i", { class: `swatch ${one.kind}` }), one.name)));
}

// The parts of the page

function showProgress(frame) {
  const found = frame.progress, points = found.points;
  if (points.length) {
    state.older = state.older.filter(([x]) => x < points[0][0]).slice(-KEPT);
  }
  const joined = [...state.older, ...points];
  const name = found.measure;
  put("window-name", `${name}, newest ${whole(found.window_size)}`);
  put("window", measure(found.window));
  put("mean", measure(found.mean));
  put("answers", whole(frame.status.answers));
  put("progress-lead", `Progressive ${name}: each query is ranked before its answer is learned. ` +
    `${plural(found.measured, "answer", "answers")} since the start of the service.` +
    (found.left_out ? ` The measure left out ${whole(found.left_out)}.` : "") +
    (found.skipped ? ` ${whole(found.skipped)} were not measured, because too many arrived at once.` : ""));
  const series = [
    { name: `mean of the newest ${whole(found.window_size)}`, kind: "c0", points: joined.map(([x, y]) => [x, y]) },
    { name: "mean since the start", kind: "c1 dashed", points: joined.map(([x, , y]) => [x, y]) },
  ];
  keys("progress-keys", series);
  draw("progress-plot", series, {
    height: 280, settle: 30, x: whole, y: (y) => y.toFixed(3), none: "The curve begins with the second answer.",
    label: `${name}: ${measure(found.window)} over the newest answers, ${measure(found.mean)} since the start. The table below lists the values.`,
  });
  put("progress-caption", `${name} over the number of the answer`);
  const step = Math.max(1, Math.ceil(joined.length / 20));
  const rows = joined.filter((_, k) => (joined.length - 1 - k) % step === 0);
  fill("progress-table", `Progressive ${name}`, [["Answer", ""], ["Newest answers", "number"], ["Since the start", "number"]],
    rows.reverse().map(([x, y, mean]) => [whole(x), measure(y), measure(mean)]));
}

function interval([low, high], reach) {
  const made = shape("svg", { class: `interval ${low > 0 ? "up" : high < 0 ? "down" : ""}`, viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" });
  const across = (value) => 50 + 50 * Math.max(-1, Math.min(1, value / reach));
  made.append(shape("line", { class: "zero", x1: 50, x2: 50, y1: 0, y2: 8 }));
  made.append(shape("line", { class: "span", x1: across(low), x2: across(high), y1: 4, y2: 4 }));
  return made;
}

function showStandings(frame) {
  const found = frame.standings;
  at("standings").hidden = !found;
  if (!found) return;
  const sure = `${+(100 * (1 - found.error)).toFixed(4)} %`, last = found.last_promotion;
  put("standings-text", `Current model: ${found.incumbent.algorithm} (${found.incumbent.learns ? "learns" : "does not learn"}). ` +
    (found.automatic ? `A challenger is promoted automatically once it is better, at an error rate of ${brief(100 * found.error)} %.` : "Challengers are promoted by hand only.") +
    (last ? ` ${last.name} was promoted at version ${whole(last.model_version)}.` : "") + (found.withheld ? ` Note: ${found.withheld}.` : ""));
  const signed = (value) => (value === null ? "–" : `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(4)}`);
  const reach = Math.max(...found.challengers.flatMap((one) => one.interval.map(Math.abs)), 1e-9);
  const verdict = (one) => (one.better ? "better" : one.interval[1] < 0 ? "worse" : "not decided");
  fill("standings-table", "Progressive means on the same answers", [["Challenger", "long"], ["Verdict", "short"], ["Difference", "number"], [`${sure} interval`, "number"],
    ["", "interval"], ["Its mean", "number"], ["Incumbent's", "number"], ["Measure", ""], ["Answers", "number"]], // what matters is seen on a phone
  found.challengers.map((one) => [`${one.name} (${one.algorithm})`, verdict(one), signed(one.difference), `${signed(one.interval[0])} to ${signed(one.interval[1])}`,
    [one.interval, reach], measure(one.mean), measure(one.incumbent_mean), one.measure, whole(one.answers)]), "There are no challengers.");
  const byClicks = found.challengers.filter((one) => one.clicked !== null);
  at("naive").hidden = !byClicks.length;
  fill("naive-table", "“Clicked more” is not “better”", [["Challenger", "long"], ["Duels won", "number"], ["Lost", "number"], ["Better", ""], ["Reciprocal rank of the first click", "number"], ["The incumbent's", "number"]],
    byClicks.map((one) => [one.name, whole(one.wins), whole(one.losses), verdict(one), measure(one.clicked), measure(one.incumbent_clicked)]));
  const series = Object.entries(frame.duels).map(([name, points], k) => ({
    name: `${name}`, kind: `c${k % 5}`, points: points.map(([x, incumbent, mean]) => [x, mean - incumbent]),
  }));
  at("duels").hidden = !series.some((one) => one.points.length > 1);
  keys("duels-keys", series);
  draw("duels-plot", series, { height: 200, settle: 30, x: whole, y: (y) => y.toFixed(3), none: "",
    label: "Difference of progressive means, challenger minus incumbent. The table above shows the latest values." });
}

function showClicks(found) {
  at("clicks").hidden = at("clicks-link").hidden = !found;
  if (!found) return;
  put("clicks-lead", `${plural(found.clicks, "click", "clicks")} on ${plural(found.lists, "list", "lists")} since the start of the service; ` +
    `${percent(found.explored / found.lists)} of the lists were explored. Exploration changed ${percent(found.changed)} of all lists, and moved ${brief(found.moved)} documents in each of them.`);
  const arms = `${brief(found.explored_clicks)} clicks per list that was explored`;
  put("clicks-price", found.price === null ? `${found.explored ? `${arms}. ` : ""}The price of exploration is measured by lists that are not explored: --explore-share 0.9 leaves a tenth of them as ranked.` :
    `The price of exploration: ${brief(found.price)} ± ${brief(found.price_error)} clicks per list (${arms}, ${brief(found.other_clicks)} per list that was not).`);
  const top = Math.max(...found.rates, 1e-9);
  fill("clicks-table", "Clicks by place", [["Place", ""], ["Click rate", "number"], ["", "bar"], ["Examined, relative to the first", "number"], ["Lists", "number"]],
    found.rates.map((rate, place) => [whole(place + 1), percent(rate), [rate / top, "more"], percent(found.examination[place]), whole(found.shown[place])]));
}

function showLearning(found) {
  const share = found.rounds ? ` (${percent(found.updates / found.rounds)})` : "", stays = found.learns ? "" : "It ranks but does not learn. ";
  const margin = found.margin === null ? "" : ` Its margin is now ${brief(found.margin)}.`;
  put("updates", stays + (found.learns || found.rounds ? `${plural(found.updates, "update", "updates")}${share} in ${plural(found.rounds, "round", "rounds")}.${margin}` : ""));
  put("certificate", found.certificate);
  put("settings", found.settings);
}

const KINDS = { "+": "more", "-": "less", "±": "mixed" };
const MEANING = { "+": "more is better", "-": "less is better", "±": "it depends" };

function showLearned(found) {
  put("learned-note", found.note);
  const top = Math.max(...found.features.map((one) => one.share || 0), 1e-12);
  fill("features", "Share of each feature in the scores", [["Feature", "long"], ["", "bar"], ["Share", "number"], ["Effect", ""]],
    found.features.map((one) => [one.feature, [(one.share || 0) / top, KINDS[one.sign]], percent(one.share), MEANING[one.sign]]));
  put("moved-title", `Changes since ${moment(found.since)}`);
  const signed = (value) => (value < 0 ? "−" : "") + percent(Math.abs(value));
  fill("changes", "Shares, negative where less is better", [["Feature", "long"], ["Before", "number"], ["Now", "number"], ["", ""]],
    found.changes.map((one) => [one.feature, signed(one.before), signed(one.now), one.kind]), "No share has changed by more than 5 %.");
}

function showWorst(frame) {
  const name = frame.progress.measure;
  put("worst-note", `Recent queries with the lowest ${name}, as they were ranked before their answers were learned.`);
  fill("worst-table", "Worst recent queries", [["Event", "long"], ["Answered", ""], [name, "number"], ["Ranked first", "long"], ["Best", "long"], ["Rank of the best", "number"]],
    frame.worst.map((one) => [one.event_id, clock(one.time), measure(one.value), `${one.first} (grade ${brief(one.first_grade)})`,
      `${one.best} (grade ${brief(one.best_grade)})`, `${whole(one.best_place)} of ${whole(one.documents)}`]),
    "All recent queries were ranked perfectly.");
}

function showService(frame) {
  const { status, requests, rates } = frame, last = rates.length ? rates[rates.length - 1] : null;
  put("rate", last ? brief(last[1]) : "–");
  put("latency", duration(requests.rank.p99));
  put("log", bytes(status.log_bytes));
  const series = [
    { name: "rankings per second", kind: "c0", points: rates.map(([time, ranked]) => [time, ranked]) },
    { name: "answers per second", kind: "c1 dashed", points: rates.map(([time, , answered]) => [time, answered]) },
  ];
  keys("rates-keys", series);
  const now = last ? `${brief(last[1])} rankings and ${brief(last[2])} answers per second now` : "";
  draw("rates-plot", series, { height: 170, zero: true, times: true, x: clock, y: brief, none: "The curve begins after two seconds.",
    label: `Throughput of the last minutes: ${now}. The table below lists the values.` });
  put("rates-caption", "Throughput of the last three minutes, all rankers");
  const step = Math.max(1, Math.ceil(rates.length / 12));
  fill("rates-table", "Throughput", [["Time", ""], ["Rankings per second", "number"], ["Answers per second", "number"]],
    rates.filter((_, k) => (rates.length - 1 - k) % step === 0).reverse().map(([time, ranked, answered]) => [clock(time), brief(ranked), brief(answered)]));
  fill("times", "Newest 1,024 requests of each kind, all rankers", [["Request", ""], ["Since the start", "number"], ["Median", "number"], ["99th percentile", "number"]],
    Object.entries(requests).map(([kind, one]) => [kind, whole(one.count), duration(one.p50), duration(one.p99)]));
  put("about", `Model version ${whole(status.model_version)} · log ${bytes(status.log_bytes)} · ${plural(status.waiting_rankings, "ranking waits", "rankings wait")} for an answer, ` +
    `${plural(status.waiting_answers, "answer waits", "answers wait")} for the log · ${whole(status.refused_answers)} refused by the learner · ` +
    `perceptrank ${frame.version}, running since ${moment(frame.started)}`);
}

function show(frame) {
  state.frame = frame;
  at("content").hidden = false;
  put("title", frame.ranker === "default" ? frame.status.algorithm : `${frame.ranker}: ${frame.status.algorithm}`);
  at("problem").hidden = !frame.status.problem;
  put("problem", frame.status.problem || "");
  at("warning").hidden = !frame.status.warning;
  put("warning", frame.status.warning || "");
  const choices = at("ranker"), names = JSON.stringify(frame.rankers);
  if (choices.dataset.key !== names) {
    choices.dataset.key = names;
    choices.replaceChildren(...frame.rankers.map((name) => element("option", { value: name }, name)));
    choices.value = frame.ranker;
  }
  at("choice").hidden = frame.rankers.length < 2;
  const graded = frame.progress.measured > 0 || !frame.clicks; // clicks alone have no measure of their own
  at("graded").hidden = at("worst").hidden = at("worst-link").hidden = !graded;
  showProgress(frame);
  showStandings(frame);
  showClicks(frame.clicks);
  showLearning(frame.learning);
  showLearned(frame.learned);
  showWorst(frame);
  showService(frame);
}

// The connection: fetch instead of EventSource, since only it can send the token in a header

function say(kind, text) {
  at("status").className = `state ${kind}`;
  put("state", text);
}

function ask(refusal) {
  at("login").hidden = false;
  put("refusal", refusal);
  say("lost", "A token is needed to watch.");
  at("token").focus();
}

async function follow() {
  const abort = new AbortController(), token = sessionStorage.getItem("token");
  state.abort = abort;
  const path = state.ranker === null ? "live" : `live/${encodeURIComponent(state.ranker)}`;
  const response = await fetch(path, { headers: token ? { Authorization: `Bearer ${token}` } : {}, signal: abort.signal, cache: "no-store" });
  if (response.status === 401 || response.status === 403) {
    const told = await response.json();
    sessionStorage.removeItem("token");
    ask(token || response.status === 403 ? told.error.message : "");
    return false;
  }
  if (!response.ok) throw new Error(`status ${response.status}`);
  at("login").hidden = true;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "", watch = setTimeout(() => abort.abort(), SILENCE);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Error("the stream has ended");
      clearTimeout(watch);
      watch = setTimeout(() => abort.abort(), SILENCE);
      text += value;
      const parts = text.split("\n\n");
      text = parts.pop();
      if (!parts.length) continue;
      const frame = JSON.parse(parts[parts.length - 1].slice("data: ".length)); // earlier ones are out of date
      if (state.abort !== abort) return true;
      state.wait = 500;
      const { learning, replica_of: primary, entries_behind: behind } = frame.status;
      const lag = primary ? ` Replica of ${primary}, ${plural(behind, "entry", "entries")} behind.` : "";
      say("live", `Live. ${learning ? "Learning from answers." : "Ranking only: nothing is learned now."}${lag}`);
      show(frame);
    }
  } finally {
    clearTimeout(watch);
  }
}

async function stayConnected() {
  for (;;) {
    let mine = null;
    try {
      const going = follow();
      mine = state.abort;
      if (!(await going)) return;
    } catch (error) {
      if (state.abort !== mine) return; // another ranker was chosen, which has a connection of its own
      if (state.frame !== null) state.older = [...state.older, ...state.frame.progress.points].slice(-KEPT);
      const since = state.frame === null ? "" : ` What is shown is of ${clock(state.frame.time)}.`;
      say("lost", `The service cannot be reached; trying again.${since}`);
      await new Promise((done) => setTimeout(done, state.wait));
      state.wait = Math.min(10000, 2 * state.wait);
    }
  }
}

at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", at("token").value.trim());
  at("token").value = "";
  at("login").hidden = true;
  say("", "Connecting …");
  stayConnected();
});

at("ranker").addEventListener("change", (event) => {
  const before = state.abort;
  Object.assign(state, { ranker: event.target.value, older: [], frame: null, abort: null, wait: 500 });
  before?.abort();
  stayConnected();
});

addEventListener("resize", () => { if (state.frame !== null) show(state.frame); });
stayConnected();
