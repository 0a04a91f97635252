"""A query in SQL, for DuckDB and PostgreSQL."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from perceptrank.deploy.additive import Additive, ScoreCurve
from perceptrank.deploy.engines.programs import find_program, run_program
from perceptrank.deploy.folding import Folded, Term
from perceptrank.deploy.target import SumTarget
from perceptrank.kernels.arrays import Floats
from perceptrank.stream.validation import ParameterError, check_choice

DIALECTS = ("duckdb", "postgresql")
_DOUBLE = {"duckdb": "DOUBLE", "postgresql": "DOUBLE PRECISION"}
_NEAR = 50  # terms that are added one after the other

# Of PostgreSQL: bytes of a name before it is cut off, and double precision columns that fit into a row of 8 kB.
LONGEST_NAME = 63
MOST_COLUMNS = 1000
LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, kw_only=True)
class SqlQuery(SumTarget):
    """A query that adds a column of scores to a table of documents with a column per feature.

    Numbers are cast from text to double precision, since a decimal number would be computed with as a decimal.

    Parameters
    ----------
    dialect : either "duckdb" or "postgresql"
        What takes the query.
    table : str
        Name of the table of documents, perhaps with its schema.
    score : str
        Name of the column of scores.
    url : str, optional
        For parity: where PostgreSQL is, as psql takes it.
    """

    name = "sql"

    dialect: str = "duckdb"
    table: str = "documents"
    score: str = "score"
    url: str | None = None

    def __post_init__(self) -> None:
        check_choice(self.option("dialect"), self.dialect, DIALECTS)
        for option in ("table", "score"):
            value = getattr(self, option)
            if not isinstance(value, str) or not all(value.split(".")) or "\0" in value:
                raise ParameterError(self.option(option), "must be a name", value)

    def write(self, model: Folded | Additive) -> tuple[str, list[str]]:
        self._check_names([*model.used, self.score])
        notes = ["a document's score is NULL if one of its features is"]
        if model.is_sparse:
            notes = ["a feature that is NULL counts as 0, as those that are absent did in learning"]
        if isinstance(model, Additive):
            terms = [self._case(curve, model) for curve in model.curves]
        else:
            terms = [self._term(term, model.is_sparse) for term in model.terms()]
        if model.forest is not None:
            terms += model.forest.nested(self._number, partial(self._split, model))
        if model.bias:
            terms.append(self._number(model.bias))
        text = (
            f"-- Scores of documents: {model.kind} ({model.algorithm}) that perceptrank has exported, "
            f"for {self.dialect}.\n"
            f"SELECT *, {_sum(terms)} AS {quoted(self.score)}\nFROM {self._table()}\n"
        )
        return text, notes

    def _table(self) -> str:
        return ".".join(map(quoted, self.table.split(".")))

    def _check_names(self, names: list[str]) -> None:
        *features, score = names
        if score in features:
            raise ValueError(f"a feature is called {score!r}, as the column of scores: set the option score of sql")
        for name in names:
            if not name or "\0" in name or name.encode(errors="replace").decode() != name:
                raise ValueError(
                    f"SQL cannot hold a column called {name!r}: a name is not empty, has no zero byte, and is "
                    "text that UTF-8 can hold; rename the feature"
                )
        if self.dialect == "duckdb":
            seen: dict[str, str] = {}
            for name in names:
                if name.lower() in seen:
                    same = f"{seen[name.lower()]!r} and {name!r}"
                    raise ValueError(f"DuckDB does not distinguish the columns {same}: rename one of the features")
                seen[name.lower()] = name
            return
        for name in names:
            if len(name.encode()) > LONGEST_NAME:
                raise ValueError(f"PostgreSQL cuts names off after {LONGEST_NAME} bytes: rename the feature {name!r}")
        if len(features) > MOST_COLUMNS:
            raise ValueError(
                f"a row of PostgreSQL holds at most {MOST_COLUMNS} columns of double precision, and {len(features)} "
                "features have a weight: export to 'python', 'javascript' or 'onnx', or to sql with dialect='duckdb'"
            )

    def _column(self, name: str, *, is_sparse: bool) -> str:
        column = f"CAST({quoted(name)} AS {_DOUBLE[self.dialect]})"
        return f"COALESCE({column}, {self._number(0.0)})" if is_sparse else column

    def _term(self, term: Term, is_sparse: bool) -> str:
        column = self._column(term.name, is_sparse=is_sparse)
        if term.offset:
            column = f"({column} - {self._number(term.offset)})"
        return f"{self._number(term.weight)} * {column}"

    def _split(self, model: Folded, feature: int, threshold: float, left: str, right: str) -> str:
        """Return what a node of a tree adds. NaN, and NULL that is not 0, make the sum so by the feature's product."""
        value = self._column(model.names[feature], is_sparse=model.is_sparse)
        return f"CASE WHEN {value} <= {self._number(threshold)} THEN {left} ELSE {right} END"

    def _case(self, curve: ScoreCurve, additive: Additive) -> str:
        """Return what a feature adds. NULL, NaN and infinity are below no edge in either database, and stay so."""
        value = self._column(curve.name, is_sparse=False)
        for mean, inverse in curve.before:
            value = f"(({value} - {self._number(mean)}) * {self._number(inverse)})"
        heights = [self._number(height) for height in curve.heights]
        if not additive.has_steps:
            number = self._number
            lines = (
                f"{number(start)} + {number(rise)} * (({value} - {number(low)}) / {number(length)})"
                for low, length, start, rise in curve.lines()
            )
            heights = [heights[0], *lines, heights[-1]]
        edges = [*map(self._number, curve.edges), self._number(LARGEST)]
        cases = [f"    WHEN {value} <= {edge} THEN {height}" for edge, height in zip(edges, heights, strict=True)]
        return "\n".join(["CASE", *cases, f"    ELSE {value}", "  END"])

    def _number(self, value: float) -> str:
        return f"CAST('{value!r}' AS {_DOUBLE[self.dialect]})"

    def engine(self) -> str:
        if self.dialect == "duckdb":
            return f"DuckDB {_duckdb().__version__}"
        return f"PostgreSQL {self._psql('SHOW server_version;').strip()}"

    def run(self, model: Folded | Additive, text: str, columns: Any) -> Floats:
        names = model.used
        place = "place"
        while place.lower() in {name.lower() for name in [*names, self.score]}:
            place += "_"
        if self.dialect == "duckdb":
            statement = self._over(text, quoted("documents"))
            with _duckdb().connect() as connection:
                table = dict(zip(names, np.ascontiguousarray(columns.T), strict=True))
                connection.register("documents", {place: np.arange(len(columns)), **table})
                rows = connection.execute(f"SELECT {quoted(self.score)} FROM ({statement}) ORDER BY {quoted(place)}")
                return np.asarray(rows.fetchnumpy()[self.score], np.float64)
        statement = self._over(text, f"pg_temp.{quoted('documents')}")
        declared = ", ".join(f"{quoted(name)} double precision" for name in names)
        rows = "\n".join("\t".join(map(repr, [i, *row])) for i, row in enumerate(columns.tolist()))
        script = (
            "SET extra_float_digits = 3;\n"  # every digit
            f"CREATE TEMP TABLE documents ({quoted(place)} bigint, {declared});\n"
            f"COPY pg_temp.documents FROM STDIN;\n{rows}\n\\.\n"
            f"SELECT {quoted(self.score)} FROM ({statement}) AS scored ORDER BY {quoted(place)};\n"
        )
        return np.array(self._psql(script).split(), dtype=np.float64)

    def _over(self, text: str, table: str) -> str:
        own = f"FROM {self._table()}\n"
        return f"{text.removesuffix(own)}FROM {table}\n"

    def _psql(self, script: str) -> str:
        psql = find_program("psql", "a query for PostgreSQL")
        where = [] if self.url is None else ["--dbname", self.url]
        quiet = ["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set", "ON_ERROR_STOP=1", "--no-password"]
        return run_program([psql, *quiet, *where], text=script)


def _sum(terms: list[str]) -> str:
    """Add up terms in groups, and groups of these: databases take a time of (depth x terms) to plan an expression."""
    while True:
        groups = [terms[place : place + _NEAR] for place in range(0, len(terms), _NEAR)]
        joined = ["(\n  " + " +\n  ".join(group) + "\n)" for group in groups]
        if len(joined) <= _NEAR:
            return " + ".join(joined)
        terms = joined


def quoted(name: str) -> str:
    """Quote the name of a column or table."""
    return '"' + name.replace('"', '""') + '"'


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise ImportError("DuckDB is not installed: pip install 'perceptrank[duckdb]'") from None
    return duckdb
