"""A JavaScript function that needs nothing but JavaScript."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from perceptrank.deploy.additive import Additive, table_of
from perceptrank.deploy.engines.programs import find_program, folder_with, run_program
from perceptrank.deploy.folding import Folded
from perceptrank.deploy.forests import node_rows
from perceptrank.deploy.target import SumTarget
from perceptrank.kernels.arrays import Floats

_SOURCE = """\
// Scores of documents: {model.kind} ({model.algorithm}) that perceptrank has exported.
// An ECMAScript module.

export const BIAS = {model.bias!r};
export const {table.name} = [ // name of a feature, {table.columns}
{rows}
];
{helper}
/** The score of a document, the larger the better, for an object that has features by name. {absent} */
export function score(features) {{
  let total = BIAS;
  for (const [name, {table.parts}] of {table.name}) {{
    let value = {value};
    if (typeof value !== "number" || !Number.isFinite(value)) {{
      throw new TypeError(`feature ${{name}} must be a finite number, got ${{value}}`);
    }}
{body}
  }}
{walks}  return total;
}}

/** The places of one query's documents, best first; those of equal scores stay in their order. */
export function rank(documents) {{
  const scores = documents.map(score);
  return [...scores.keys()].sort((a, b) => scores[b] - scores[a] || a - b);
}}
"""

_COUNT_BELOW = """
/** The number of edges, which are in rising order, that a value is {compared}. */
function countBelow(edges, value) {{
  let low = 0;
  let high = edges.length;
  while (low < high) {{
    const middle = (low + high) >> 1;
    if (edges[middle] {sign} value) low = middle + 1;
    else high = middle;
  }}
  return low;
}}
"""

_TREES = """
/** Trees. A document goes from a node to the first of two others if the feature is not above the number, else to the
 * second. Those below 0 are leaves: node -1 is the first, -2 the second. */
const NODES = [
{nodes}
];
const ROOTS = {roots};
const LEAVES = {leaves};
"""
_WALKS = """\
  for (let node of ROOTS) {{
    while (node >= 0) {{
      const [name, highest, first, second] = NODES[node];
      const value = {value};
      node = value <= highest ? first : second;
    }}
    total += LEAVES[-1 - node];
  }}
"""
_VALUE = "Object.prototype.hasOwnProperty.call(features, name) ? features[name] : "
_PRODUCT = "    total += weight * (value - offset);"
_STEPS = "    total += heights[countBelow(edges, value)];"
_LINES = """\
    for (const [mean, inverse] of scaling) value = (value - mean) * inverse;
    const place = countBelow(edges, value);
    if (place > 0 && place < edges.length) {
      const low = edges[place - 1];
      const rise = heights[place] - heights[place - 1];
      total += heights[place - 1] + rise * ((value - low) / (edges[place] - low));
    } else {
      total += heights[Math.min(place, edges.length - 1)];
    }"""

_RUNNER = """\
import { readFileSync } from "node:fs";
import { score } from "./model.mjs";
const { names, rows } = JSON.parse(readFileSync("documents.json", "utf8"));
const scores = rows.map((row) => {
  const features = Object.create(null);
  names.forEach((name, place) => { features[name] = row[place]; });
  return score(features);
});
process.stdout.write(JSON.stringify(scores));
"""


@dataclass(frozen=True, kw_only=True)
class JavaScriptFunction(SumTarget):
    """Source text of a module with a function `score`, and `rank` for the documents of a query."""

    name = "javascript"

    def write(self, model: Folded | Additive) -> tuple[str, list[str]]:
        helper, body, walks = "", _PRODUCT, ""
        value = _VALUE + ("0" if model.is_sparse else "undefined")
        if model.forest is not None:
            walks = _WALKS.format(value=value)
            helper = _TREES.format(
                nodes="\n".join(f"  {json.dumps(row)}," for row in node_rows(model.forest, model.names)),
                roots=model.forest.roots.tolist(),
                leaves=model.forest.values.tolist(),
            )
        if isinstance(model, Additive):
            compared, sign, body = ("above", "<", _STEPS) if model.has_steps else ("not below", "<=", _LINES)
            helper = _COUNT_BELOW.format(compared=compared, sign=sign)
        table = table_of(model)
        text = _SOURCE.format(
            model=model,
            table=table,
            rows="\n".join(f"  {json.dumps(row)}," for row in table.rows),
            helper=helper,
            absent="One that is absent is 0." if model.is_sparse else "One that is absent is an error.",
            value=value,
            body=body,
            walks=walks,
        )
        return text, ["it is an ECMAScript module: name the file .mjs for Node, or import it as a module"]

    def engine(self) -> str:
        return f"Node {run_program([find_program('node', 'the JavaScript function'), '--version']).strip()}"

    def run(self, model: Folded | Additive, text: str, columns: Any) -> Floats:
        node = find_program("node", "the JavaScript function")
        documents = json.dumps({"names": model.used, "rows": columns.tolist()})
        with folder_with({"model.mjs": text, "run.mjs": _RUNNER, "documents.json": documents}) as folder:
            return np.array(json.loads(run_program([node, "run.mjs"], folder=folder)), dtype=np.float64)
