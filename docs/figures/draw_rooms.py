"""Draw the packages in docs/architecture.md, the layers of pyproject.toml.

python docs/figures/draw_rooms.py [FILE]
"""

import sys
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOLDS = {
    "cli": "all of it by name: one file per command",
    "paper": "the paper's experiments, and the report",
    "distributed": "the same learn() on many machines",
    "serve": "rank, hear the answer, learn; nothing is lost",
    "deploy": "explain; export to engines; prove that they rank alike",
    "learners": "one algorithm, one file: rule, class, compiled pass",
    "theory": "theorems as values, margins, certificates, adversaries",
    "evaluation": "traces, comparisons, may it go live?",
    "clicks": "what clicks say: users, policies, position bias, judgements",
    "transforms": "features of any scale, missing values, bins, hashing",
    "datasets": "public data sets, simulated streams",
    "measures": "NDCG, AP, ERR …: values with a kernel each",
    "io": "text, tables, stores, Parquet, model files",
    "stream": "QueryStream: judged queries, dense or sparse",
    "kernels": "compiled code that several packages share, and its cache",
}
FLOORS = {"cli": "front door", "distributed": "roads out", "learners": "learning", "datasets": "foundations"}
# The line that a judged query travels, and what one sees at its stops.
STOPS = {
    "distributed": "a model of many shards",
    "serve": "rankings over HTTP",
    "deploy": "an engine's model",
    "learners": "model.json, learning on",
    "evaluation": "a trace of every ranking",
    "transforms": "what learners see",
    "io": "judged queries come in",
    "stream": "a block of queries",
}
WIDTH, ROW, GAP, LEFT, ROOMS = 860, 30, 16, 104, 520
INK, SOFT, LINE, FILL, STOP_FILL, RAIL = "#1b1f24", "#57606a", "#b8c0c8", "#f5f7f9", "#dbeafe", "#0072b2"


def draw() -> str:
    """Return the drawing as SVG."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = contract["contracts"][0]["layers"]
    parts, middles, y = [], {}, 8
    for name in layers:
        if name in FLOORS:
            y += GAP if parts else 0
            parts.append(f'<text x="{LEFT - 14}" y="{y + 20}" class="floor">{FLOORS[name]}</text>')
        fill = STOP_FILL if name in STOPS else FILL
        box = f'x="{LEFT}" y="{y}" width="{ROOMS}" height="{ROW - 4}"'
        parts.append(f'<rect {box} rx="3" fill="{fill}" stroke="{LINE}"/>')
        parts.append(f'<text x="{LEFT + 10}" y="{y + 18}" class="room">{name}/</text>')
        parts.append(f'<text x="{LEFT + 110}" y="{y + 18}" class="soft">{escape(HOLDS[name])}</text>')
        middles[name] = y + ROW // 2 - 2
        y += ROW
    right, rail = LEFT + ROOMS, LEFT + ROOMS + 26
    ends = [middles[name] for name in STOPS]
    parts.append(f'<path d="M{rail},{max(ends)} V{min(ends)}" stroke="{RAIL}" stroke-width="3"/>')
    for name, what in STOPS.items():
        middle = middles[name]
        parts.append(f'<path d="M{right},{middle} H{rail}" stroke="{RAIL}" stroke-width="1.5"/>')
        parts.append(f'<circle cx="{rail}" cy="{middle}" r="5" fill="#fff" stroke="{RAIL}" stroke-width="2.5"/>')
        parts.append(f'<text x="{rail + 14}" y="{middle + 4}" class="soft">{escape(what)}</text>')
    below = "imports point down only; the line is the way of a judged query, from below"
    parts.append(f'<text x="{LEFT}" y="{y + 18}" class="floor start">{below}</text>')
    style = (
        f"text{{font:13px system-ui,sans-serif;fill:{INK}}}.room{{font-weight:600}}.soft{{fill:{SOFT}}}"
        f".floor{{fill:{SOFT};font-size:12px;text-anchor:end}}.start{{text-anchor:start}}"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 30}" role="img">'
    title = "<title>The packages of perceptrank</title>"
    return "\n".join([head, title, f"<style>{style}</style>", *parts, "</svg>", ""])


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("rooms.svg")).write_text(
        draw(), encoding="utf-8"
    )
