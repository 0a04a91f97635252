"""A JavaScript function that needs nothing but JavaScript."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perceptrank.deploy.folding import Folded
from perceptrank.deploy.programs import find_program, run_program
from perceptrank.deploy.target import LinearTarget
from perceptrank.kernels.arrays import Floats

_SOURCE = """\
// Scores of documents: a linear model ({algorithm}) that perceptrank has exported. An ECMAScript module.

export const BIAS = {bias};
export const TERMS = [ // name of a feature, weight, and what is subtracted from the feature first
{terms}
];

/** The score of a document, the larger the better, for an object that has features by name. {absent} */
export function score(features) {{
  let total = BIAS;
  for (const [name, weight, offset] of TERMS) {{
    const value = {value};
    if (typeof value !== "number" || !Number.isFinite(value)) {{
      throw new TypeError(`feature ${{name}} must be a finite number, got ${{value}}`);
    }}
    total += weight * (value - offset);
  }}
  return total;
}}

/** The places of one query's documents, best first; those of equal scores stay in their order. */
export function rank(documents) {{
  const scores = documents.map(score);
  return [...scores.keys()].sort((a, b) => scores[b] - scores[a] || a - b);
}}
"""

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
class JavaScriptFunction(LinearTarget):
    """Source text of a module with a function `score`, and `rank` for the documents of a query."""

    name = "javascript"

    def write(self, folded: Folded) -> tuple[str, list[str]]:
        """Return the source text."""
        terms = "\n".join(f"  [{json.dumps(name)}, {weight!r}, {offset!r}]," for name, weight, offset in folded.terms())
        own = "Object.prototype.hasOwnProperty.call(features, name) ? features[name] : "
        absent, value = "One that is absent is an error.", f"{own}undefined"
        if folded.is_sparse:
            absent, value = "One that is absent is 0.", f"{own}0"
        text = _SOURCE.format(
            algorithm=folded.algorithm, bias=repr(folded.bias), terms=terms, absent=absent, value=value
        )
        return text, ["it is an ECMAScript module: name the file .mjs for Node, or import it as a module"]

    def engine(self) -> str:
        """Name the version of Node."""
        return f"Node {run_program([find_program('node', 'the JavaScript function'), '--version']).strip()}"

    def run(self, folded: Folded, text: str, columns: Any) -> Floats:
        """Return the scores that Node gives to documents."""
        node = find_program("node", "the JavaScript function")
        names = [term.name for term in folded.terms()]
        with tempfile.TemporaryDirectory() as folder:
            for name, content in (
                ("model.mjs", text),
                ("run.mjs", _RUNNER),
                ("documents.json", json.dumps({"names": names, "rows": columns.tolist()})),
            ):
                Path(folder, name).write_text(content, encoding="utf-8")
            return np.array(json.loads(run_program([node, "run.mjs"], folder=folder)), dtype=np.float64)
