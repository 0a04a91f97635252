"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const PAPER = 680;
  const ruler = document.createElement("canvas").getContext("2d");
  let isPrinting = false;

  function svgElement(name, attributes, parent, text) {
    const one = document.createElementNS(SVG, name);
    for (const key in attributes) one.setAttribute(key, attributes[key]);
    if (text !== undefined) one.textContent = text;
    if (parent) parent.append(one);
    return one;
  }

  function htmlElement(name, className, parent, text) {
    const one = document.createElement(name);
    if (className) one.className = className;
    if (text !== undefined) one.textContent = text;
    if (parent) parent.append(one);
    return one;
  }

  function formatValue(value) {
    const size = Math.abs(value);
    if (size === 0) return "0";
    if (size < 0.001) return value.toExponential(2);
    return size < 999.5 ? value.toPrecision(3) : Number(value.toPrecision(3)).toLocaleString("en-US");
  }

  function withError(value, error) {
    const shown = formatValue(value);
    const decimals = (shown.split(".")[1] || "").length;
    return error === undefined || shown.includes("e") ? shown : `${shown} ± ${error.toFixed(decimals)}`;
  }

  function formatPlace(x) {
    return Number.isInteger(x) ? x.toLocaleString("en-US") : formatValue(x);
  }

  function formatTick(value) {
    const size = Math.abs(value);
    if (size < 1e-12) return "0";
    if (size >= 1e6 || (size > 0 && size < 0.001)) {
      const raised = String(Math.round(Math.log10(size))).replace(/./g, (c) => "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"["0123456789-".indexOf(c)]);
      return Math.abs(Math.log10(size) % 1) < 1e-9 ? "10" + raised : value.toExponential(0);
    }
    return value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
  }

  function linearTicks(low, high, count) {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
    const ticks = [];
    for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++) ticks.push(i * step);
    return ticks;
  }

  function logTicks(low, high, count) {
    const first = Math.ceil(Math.log10(low) - 1e-9);
    const last = Math.floor(Math.log10(high) + 1e-9);
    const every = Math.max(1, Math.ceil((last - first + 1) / count));
    const ticks = [];
    for (let e = first; e <= last; e += every) ticks.push(10 ** e);
    if (ticks.length >= 3) return ticks;
    const more = [];
    for (let e = first - 1; e <= last; e++) for (const m of [1, 2, 5]) more.push(m * 10 ** e);
    const inside = more.filter((v) => v >= low * 0.999 && v <= high * 1.001);
    return inside.length >= 2 ? inside : linearTicks(low, high, 5);
  }

  function scale(isLog, low, high, from, to) {
    const f = isLog ? Math.log10 : Number;
    const a = f(low), b = f(high);
    return (value) => from + ((f(value) - a) / (b - a || 1)) * (to - from);
  }

  function spreadApart(places, gap, lowest, highest) {
    const order = places.map((_, i) => i).sort((i, j) => places[i] - places[j]);
    let least = lowest;
    for (const i of order) { places[i] = Math.max(places[i], least); least = places[i] + gap; }
    let most = highest;
    for (const i of order.reverse()) { places[i] = Math.min(places[i], most); most = places[i] - gap; }
    return places;
  }

  function nearest(xs, x, isLog) {
    const f = isLog ? Math.log : Number;
    let best = 0;
    xs.forEach((one, i) => { if (Math.abs(f(one) - f(x)) < Math.abs(f(xs[best]) - f(x))) best = i; });
    return best;
  }

  function renderChart(figure, chart) {
    const plot = figure.querySelector(".plot");
    const choice = htmlElement("details", "choice");
    htmlElement("summary", "", choice, "Show or hide curves");
    const keys = htmlElement("div", "keys", choice);
    figure.querySelector("figcaption").after(choice);
    const hidden = new Set();
    let view = null;
    let at = null;

    chart.series.forEach((one, i) => {
      const button = htmlElement("button", "", keys);
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.title = "Show or hide this curve";
      htmlElement("span", one.dashed ? "swatch dashed" : "swatch", button).style.color = `var(--c${one.color})`;
      button.append(one.name);
      button.addEventListener("click", () => {
        const isShown = hidden.delete(i) || (hidden.add(i), false);
        button.setAttribute("aria-pressed", String(isShown));
        draw();
      });
    });

    function extent(values) {
      const finite = values.filter((v) => Number.isFinite(v) && !(chart.log_y && v <= 0));
      return [Math.min(...finite), Math.max(...finite)];
    }

    function draw() {
      const width = isPrinting ? PAPER : Math.max(280, plot.clientWidth);
      const height = Math.round(Math.min(chart.log_y ? 460 : 400, Math.max(300, width * 0.5)));
      const visible = chart.series.filter((_, i) => !hidden.has(i));
      const isWide = width >= 640;
      const ends = visible.map((one) => (isWide ? `${one.name} ${formatValue(one.y.at(-1))}` : one.short));
      ruler.font = `600 12px ${getComputedStyle(plot).fontFamily}`;
      const gutter = 20 + Math.max(0, ...ends.map((text) => ruler.measureText(text).width));
      const right = width - gutter, top = 10, bottom = height - 42;
      plot.replaceChildren();
      view = null;
      const svg = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": chart.title }, plot);
      if (!visible.length) {
        svgElement("text", { x: width / 2, y: height / 2, "text-anchor": "middle", class: "label" }, svg, "No curve is selected.");
        return;
      }
      const [xLow, xHigh] = [Math.min(...visible.map((s) => s.x[0])), Math.max(...visible.map((s) => s.x.at(-1)))];
      let [yLow, yHigh] = extent(visible.flatMap((s) => s.y));
      if (chart.log_y) { yLow /= 1.5; yHigh *= 1.5; } else {
        const pad = (yHigh - yLow || Math.abs(yHigh) || 1) * 0.06;
        yLow -= pad; yHigh += pad;
      }
      const yTicks = chart.log_y ? logTicks(yLow, yHigh, 7) : linearTicks(yLow, yHigh, 6);
      const left = 34 + 7 * Math.max(...yTicks.map((v) => formatTick(v).length));
      const X = scale(chart.log_x, xLow, xHigh, left, right);
      const Y = scale(chart.log_y, yLow, yHigh, bottom, top);
      const clamp = (value) => Y(Math.min(Math.max(value, yLow), yHigh)).toFixed(1);

      const axis = svgElement("g", { class: "axis" }, svg);
      for (const v of yTicks) {
        svgElement("line", { class: "grid", x1: left, x2: right, y1: Y(v), y2: Y(v) }, axis);
        svgElement("text", { x: left - 8, y: Y(v) + 4, "text-anchor": "end" }, axis, formatTick(v));
      }
      for (const v of chart.log_x ? logTicks(xLow, xHigh, width / 80) : linearTicks(xLow, xHigh, width / 90)) {
        svgElement("line", { class: "grid", x1: X(v), x2: X(v), y1: bottom, y2: bottom + 5 }, axis);
        svgElement("text", { x: X(v), y: bottom + 19, "text-anchor": "middle" }, axis, formatTick(v));
      }
      svgElement("text", { x: (left + right) / 2, y: height - 6, "text-anchor": "middle", class: "label" }, svg, chart.x_label);
      const turned = `rotate(-90 12 ${(top + bottom) / 2})`;
      svgElement("text", { x: 12, y: (top + bottom) / 2, "text-anchor": "middle", transform: turned, class: "label" }, svg, chart.y_label);

      for (const one of visible) {
        if (!one.low) continue;
        const upper = one.x.map((x, i) => `${X(x).toFixed(1)},${clamp(one.high[i])}`);
        const lower = one.x.map((x, i) => `${X(x).toFixed(1)},${clamp(one.low[i])}`).reverse();
        svgElement("path", { d: `M${[...upper, ...lower].join("L")}Z`, fill: `var(--c${one.color})`, opacity: 0.09 }, svg);
      }
      for (const one of visible) {
        const points = one.x.map((x, i) => `${X(x).toFixed(1)},${clamp(one.y[i])}`);
        const stroke = { fill: "none", stroke: `var(--c${one.color})`, "stroke-width": one.dashed ? 1.4 : 2, class: "curve" };
        if (one.dashed) stroke["stroke-dasharray"] = "5 4";
        svgElement("path", { d: "M" + points.join("L"), ...stroke }, svg);
      }
      const places = spreadApart(visible.map((one) => Y(one.y.at(-1))), 14, top + 4, bottom);
      visible.forEach((one, i) => {
        const color = `var(--c${one.color})`;
        const join = { x1: right + 3, y1: Y(one.y.at(-1)), x2: right + 12, y2: places[i], stroke: color };
        if (one.dashed) join["stroke-dasharray"] = "2 2";
        svgElement("line", join, svg);
        svgElement("text", { x: right + 15, y: places[i] + 4, class: "end", fill: color }, svg, ends[i]);
      });
      const main = visible.find((one) => !one.dashed) || visible[0];
      const rule = svgElement("line", { class: "rule", y1: top, y2: bottom, visibility: "hidden" }, svg);
      const dots = svgElement("g", {}, svg);
      const tip = htmlElement("div", "tip", plot);
      tip.setAttribute("role", "status");
      tip.hidden = true;
      view = { visible, main, X, Y: clamp, width, rule, dots, tip, svg };
      if (at !== null) showValues(at);
    }

    function showValues(x) {
      if (!view) return;
      at = x;
      const { visible, main, X, rule, dots, tip, width } = view;
      if (x === null) {
        rule.setAttribute("visibility", "hidden");
        dots.replaceChildren();
        tip.hidden = true;
        return;
      }
      rule.setAttribute("visibility", "visible");
      rule.setAttribute("x1", X(x));
      rule.setAttribute("x2", X(x));
      dots.replaceChildren();
      tip.replaceChildren();
      htmlElement("strong", "", tip, `${chart.x_label}: ${formatPlace(x)}`);
      const rows = visible.map((one) => [one, nearest(one.x, x, chart.log_x)]).sort((a, b) => b[0].y[b[1]] - a[0].y[a[1]]);
      for (const [one, i] of rows) {
        if (!one.dashed) svgElement("circle", { cx: X(x), cy: view.Y(one.y[i]), r: 3.5, fill: `var(--c${one.color})` }, dots);
        const row = htmlElement("div", "", tip);
        htmlElement("span", one.dashed ? "swatch dashed" : "swatch", row).style.color = `var(--c${one.color})`;
        htmlElement("span", "", row, one.name);
        htmlElement("b", "", row, withError(one.y[i], one.low && one.high[i] - one.y[i]));
      }
      tip.hidden = false;
      const ratio = plot.clientWidth / width;
      const place = X(x) * ratio;
      const room = plot.clientWidth - tip.offsetWidth;
      const beside = place + 14 <= room ? place + 14 : place - tip.offsetWidth - 14;
      tip.style.left = `${Math.max(0, Math.min(room, beside))}px`;
    }

    function follow(event) {
      if (!view) return;
      const box = view.svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * view.width;
      const places = view.main.x.map(view.X);
      showValues(view.main.x[nearest(places, x, false)]);
    }

    plot.tabIndex = 0;
    plot.setAttribute("role", "group");
    plot.setAttribute("aria-label", `${chart.title}. Use the arrow keys to read the values.`);
    plot.addEventListener("pointermove", follow);
    plot.addEventListener("pointerdown", follow);
    plot.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") showValues(null); });
    plot.addEventListener("blur", () => showValues(null));
    plot.addEventListener("keydown", (event) => {
      if (!view) return;
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Escape") showValues(null);
      if (!step) return;
      event.preventDefault();
      const xs = view.main.x;
      const i = at === null ? (step > 0 ? 0 : xs.length - 1) : nearest(xs, at, chart.log_x) + step;
      showValues(xs[Math.max(0, Math.min(xs.length - 1, i))]);
    });
    let drawn = 0;
    new ResizeObserver(() => { if (plot.clientWidth !== drawn) { drawn = plot.clientWidth; draw(); } }).observe(plot);
    for (const [name, starts] of [["beforeprint", true], ["afterprint", false]]) {
      window.addEventListener(name, () => { isPrinting = starts; draw(); });
    }
    draw();
  }

  for (const figure of document.querySelectorAll("figure[data-chart]")) renderChart(figure, charts[figure.dataset.chart]);
})();
