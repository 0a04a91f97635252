"""A JavaScript function that needs nothing but JavaScript."""

import json
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perceptrank.deploy.additive import Additive
from perceptrank.deploy.engines.programs import find_program, run_program
from perceptrank.deploy.folding import Folded
from perceptrank.deploy.target import SumTarget
from perceptrank.kernels.arrays import Floats

_SOURCE = """\
// Scores of documents: {kind} ({algorithm}) that perceptrank has exported.
// An ECMAScript module.

export const BIAS = {bias};
export const {table} = [ // name of a feature, {columns}
{terms}
];
{helper}
/** The score of a document, the larger the better, for an object that has features by name. {absent} */
export function score(features) {{
  let total = BIAS;
  for (const [name, {parts}] of {table}) {{
    let value = {value};
    if (typeof value !== "number" || !Number.isFinite(value)) {{
      throw new TypeError(`feature ${{name}} must be a finite number, got ${{value}}`);
    }}
{body}
  }}
  return total;
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


_MODULE = "it is an ECMAScript module: name the file .mjs for Node, or import it as a module"


@dataclass(frozen=True, kw_only=True)
class JavaScriptFunction(SumTarget):
    """Source text of a module with a function `score`, and `rank` for the documents of a query."""

    name = "javascript"

    def write(self, folded: Folded) -> tuple[str, list[str]]:
        columns = "weight, and what is subtracted from the feature first"
        texts = {"kind": "a linear model", "table": "TERMS", "columns": columns, "parts": "weight, offset"}
        return _format(folded, folded.terms(), **texts, helper="", body=_PRODUCT), [_MODULE]

    def write_curves(self, additive: Additive) -> tuple[str, list[str]]:
        rows, parts, columns = additive.rows()
        texts = {"kind": "a sum of functions of features", "table": "CURVES", "columns": columns, "parts": parts}
        compared, sign, body = ("above", "<", _STEPS) if additive.has_steps else ("not below", "<=", _LINES)
        helper = _COUNT_BELOW.format(compared=compared, sign=sign)
        return _format(additive, rows, **texts, helper=helper, body=body), [_MODULE]

    def engine(self) -> str:
        return f"Node {run_program([find_program('node', 'the JavaScript function'), '--version']).strip()}"

    def run(self, model: Folded | Additive, text: str, columns: Any) -> Floats:
        node = find_program("node", "the JavaScript function")
        with tempfile.TemporaryDirectory() as folder:
            for name, content in (
                ("model.mjs", text),
                ("run.mjs", _RUNNER),
                ("documents.json", json.dumps({"names": model.used, "rows": columns.tolist()})),
            ):
                Path(folder, name).write_text(content, encoding="utf-8")
            return np.array(json.loads(run_program([node, "run.mjs"], folder=folder)), dtype=np.float64)


def _format(model: Folded | Additive, rows: Iterable[Any], **texts: str) -> str:
    own = "Object.prototype.hasOwnProperty.call(features, name) ? features[name] : "
    texts |= {"absent": "One that is absent is an error.", "value": f"{own}undefined"}
    if model.is_sparse:
        texts |= {"absent": "One that is absent is 0.", "value": f"{own}0"}
    terms = "\n".join(f"  {json.dumps(row)}," for row in rows)
    return _SOURCE.format(algorithm=model.algorithm, bias=repr(model.bias), terms=terms, **texts)
