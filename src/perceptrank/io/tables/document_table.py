"""Tables whose rows are documents that name their values: lines of JSON, TREC files, CSV with vectors of features."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from perceptrank.io.errors import FormatError
from perceptrank.io.tables.chunks import Progress, read_chunks
from perceptrank.io.tables.columns import (
    Format,
    Role,
    TableColumns,
    Wanted,
    column_of,
    describe_role,
    find_roles,
    holds_texts,
    is_kept_apart,
    missing_column,
)
from perceptrank.io.tables.rows import Place, Rows, is_number, parse_number
from perceptrank.kernels.arrays import Features, Floats
from perceptrank.stream.memory import free_memory
from perceptrank.stream.texts import Texts

# Keys and columns that have all features of a row: Solr's transformer, and what people call theirs.
FEATURE_LISTS = ("[features]", "features", "fv", "feature_vector", "featurevector")
TREC_COLUMNS = {
    "qrels": ("query", "iteration", "document", "grade"),
    "run": ("query", "Q0", "document", "rank", "score", "tag"),
}
_DEEPEST = 4  # a response in a list of responses in a line
_EXTRA = "extra_logging"  # of the plugin: notes of scripts among the features, under one name
# What search engines write into hits; anything else is the caller's.
_PARTS_OF_HITS = {"fields", "highlight", "ignored_field_values", "inner_hits", "matched_queries", "sort"}
_SEPARATORS = re.compile(r"[,;\t]")


class Document(NamedTuple):
    """A document: what may name its query, id and grade; its features, if they stand apart; and what else it has.

    `others` are the fields of the document itself, which are looked up only by a name that the caller gives: a film has
    a "rating" too. Whoever wrote the row chose what is in `own`: features, if they do not stand apart, and what must
    not be dropped without a word.
    """

    scalars: dict[str, Any]
    features: Mapping[str, float] | None
    others: Mapping[str, Any]
    own: Mapping[str, Any]

    def get(self, name: str) -> Any:
        """Return a value by its name, None if there is none; the one of a list of one."""
        value = self.scalars.get(name, self.others.get(name))
        return value[0] if isinstance(value, list) and len(value) == 1 else value


def read_json(path: str, progress: Progress | None = None) -> Iterator[tuple[int, Document]]:
    """Read the documents in lines of JSON, each with its line."""
    for text, first_line in read_chunks(path, progress=progress):
        for line, content in enumerate(text.split(b"\n"), first_line):
            if not content.strip():
                continue
            try:
                for document in documents_of(loads(content.decode())):
                    yield line, document
            except json.JSONDecodeError as error:
                raise FormatError(path, line, error.colno, f"a line must be an object of JSON: {error.msg}") from None
            except UnicodeDecodeError as error:
                problem = f"text must be UTF-8, got {content[error.start : error.start + 8]!r}"
                raise FormatError(path, line, error.start + 1, problem) from None
            except RecursionError:
                raise FormatError(path, line, 1, "a line is nested too deeply") from None
            except ValueError as error:
                raise FormatError(path, line, 1, str(error)) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; raise `ValueError` if it has a key twice, of which `dict` takes the last."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {max(names, key=names.count)!r} appears twice")
    return values


loads = json.JSONDecoder(object_pairs_hook=_object).decode


def read_trec(path: str, format: str, progress: Progress | None = None) -> Iterator[tuple[int, Document]]:
    """Read judgements, ``query 0 document grade``, or a run, ``query Q0 document rank score tag``, with their lines.

    The features of a run are its scores and ranks. Grades below 0, which mark documents as junk or not judged, count
    as 0, as in trec_eval.
    """
    names = TREC_COLUMNS[format]
    for text, first_line in read_chunks(path, progress=progress):
        for line, words in enumerate(map(bytes.split, text.split(b"\n")), first_line):
            if not words:
                continue
            if len(words) != len(names):
                shape = f"{', '.join(names[:-1])} and {names[-1]}, {len(names)} words"
                raise FormatError(path, line, 1, f"a line must have {shape}, got {len(words)}")
            ids = {}
            for j in (0, 2):
                try:
                    ids[names[j]] = words[j].decode()
                except UnicodeDecodeError:
                    raise FormatError(path, line, j + 1, f"text must be UTF-8, got {words[j][:40]!r}") from None
            if format == "qrels":
                grade = max(_trec_number(path, line, words, 3, "grade"), 0.0)
                yield line, Document(ids | {"grade": grade}, None, {}, {})
            else:
                features = {name: _trec_number(path, line, words, j, name) for name, j in (("score", 4), ("rank", 3))}
                yield line, Document(ids, features, {}, {})


def _trec_number(path: str, line: int, words: list[bytes], j: int, name: str) -> float:
    word = words[j].decode(errors="replace")
    try:
        number = parse_number(word)
    except ValueError:
        number = float("nan")
    if number != number:  # noqa: PLR0124
        raise FormatError(path, line, j + 1, f"a {name} must be a number, got {word[:80]!r}")
    return number


def parse_pairs(text: str) -> dict[str, float]:
    """Parse a vector as Solr logs it: ``name=value,name=value``, or ``name:value;name:value`` as it once did.

    Examples
    --------
    >>> parse_pairs("title=1.5,body=0.0")
    {'title': 1.5, 'body': 0.0}
    """
    features: dict[str, float] = {}
    for part in filter(None, map(str.strip, _SEPARATORS.split(text))):
        name, has_value, value = part.rpartition("=" if "=" in part else ":")
        name = name.strip()
        if not has_value or not name:
            raise ValueError(f"features must be name=value,name=value, got {part[:80]!r}")
        if name in features:
            raise ValueError(f"feature {name!r} appears twice")
        features[name] = as_number(name, value)
    return features


def as_number(name: str, value: Any) -> float:
    """Return the number that a value of JSON is, NaN for null; raise `ValueError` for anything else."""
    try:
        if value is None:
            return float("nan")
        if isinstance(value, (bool, int, float)):
            return float(value)
        if isinstance(value, str):
            return parse_number(value)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"feature {name!r} must be a number, got {str(value)[:80]!r}")


def documents_of(line: Any, outer: dict[str, Any] | None = None, depth: int = 0) -> Iterator[Document]:
    """Yield the documents of a line; raise `ValueError` if it is not an object, or its features are wrong."""
    if not isinstance(line, dict) or depth > _DEEPEST:
        raise ValueError(f"a line must be an object with a document or a response, got {_kind(line)}")
    features_name = _features_name(line)
    scalars = {
        name: item for name, item in line.items() if not isinstance(item, (dict, list)) and name != features_name
    }
    around = outer | scalars if outer else scalars
    hits, response, responses = line.get("hits"), line.get("response"), line.get("responses")
    if isinstance(hits, dict) and isinstance(hits.get("hits"), list):
        for hit in hits["hits"]:
            yield _read_hit(hit, around)
    elif isinstance(response, dict) and isinstance(response.get("docs"), list):
        header = line.get("responseHeader")
        parameters = header.get("params") if isinstance(header, dict) else None
        query = parameters.get("q") if isinstance(parameters, dict) else None
        for document in response["docs"]:
            yield _read_solr_document(document, ({"q": query} if isinstance(query, str) else {}) | around)
    elif isinstance(response, dict) and not response.keys().isdisjoint(("hits", "response", "responses", "_id")):
        yield from documents_of(response, around, depth + 1)
    elif isinstance(responses, list) and responses:
        for inner in responses:
            yield from documents_of(inner, around, depth + 1)
    elif "_id" in line and any(name in line for name in ("fields", "_source", "_index", "_score")):
        yield _read_hit(line, outer or {})
    else:
        features = None if features_name is None else _as_features(line[features_name])
        own = {} if features_name == FEATURE_LISTS[0] else line.copy()
        own.pop(features_name, None)
        yield Document(around, features, line, own)


def _read_hit(hit: Any, outer: dict[str, Any]) -> Document:
    if not isinstance(hit, dict):
        raise ValueError(f"a hit must be an object, got {_kind(hit)}")
    fields, source = hit.get("fields"), hit.get("_source")
    fields = fields if isinstance(fields, dict) else {}
    logs = fields.get("_ltrlog")
    logs = [entry for entry in logs if isinstance(entry, dict)] if isinstance(logs, list) else []
    entries = [(str(log), values) for entry in logs for log, values in entry.items()]
    if not entries:
        raise ValueError("a hit has no fields._ltrlog: ask for it with the extension ltr_log and a named sltr query")
    features: dict[str, float] = {}
    for log, logged in entries:
        values = logged
        if isinstance(logged, list):
            values = [item for item in logged if not (isinstance(item, dict) and item.get("name") == _EXTRA)]
        for name, value in _as_features(values).items():
            full = f"{log}.{name}" if len(entries) > 1 else name
            if full in features:
                raise ValueError(f"feature {full!r} appears twice")
            features[full] = value
    own = {name: item for name, item in hit.items() if name[0:1] != "_" and name not in _PARTS_OF_HITS}
    scalars = {name: item for name, item in own.items() if not isinstance(item, (dict, list))}
    ids = {"_id": hit["_id"]} if "_id" in hit else {}
    others = (source if isinstance(source, dict) else {}) | {k: v for k, v in fields.items() if k != "_ltrlog"}
    return Document(outer | ids | scalars, features, others, own)


def _read_solr_document(document: Any, outer: dict[str, Any]) -> Document:
    if not isinstance(document, dict):
        raise ValueError(f"a document must be an object, got {_kind(document)}")
    name = _features_name(document)
    if name is None:
        raise ValueError("a document has no [features]: ask for them with fl=id,[features]")
    own = {"id": document["id"]} if "id" in document else {}
    return Document(outer | own, _as_features(document[name]), document, {})


def _features_name(document: dict[str, Any]) -> str | None:
    """Return the one of the usual keys under which features stand together; None if there is none."""
    for name in FEATURE_LISTS:
        value = document.get(name)
        if isinstance(value, (dict, list)) or (isinstance(value, str) and ("=" in value or ":" in value or not value)):
            return name
    return None


def _as_features(value: Any) -> dict[str, float]:
    """Return features from an object, a list of pairs or numbers, or the text of Solr."""
    if isinstance(value, str):
        return parse_pairs(value)
    if isinstance(value, dict):
        return {name: as_number(name, number) for name, number in value.items()}
    if not isinstance(value, list):
        raise ValueError(f"features must be an object or a list, got {_kind(value)}")
    features: dict[str, float] = {}
    for j, item in enumerate(value, 1):
        name, number = f"f{j}", item
        if isinstance(item, dict):
            name, number = item.get("name"), item.get("value")  # type: ignore[assignment]
            if not isinstance(name, str) or len(item) != 1 + ("value" in item):
                raise ValueError(f"a feature must have a name and a value, got {str(item)[:80]}")
        if name in features:
            raise ValueError(f"feature {name!r} appears twice")
        features[name] = as_number(name, number)
    return features


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", int: "a number", float: "a number", bool: "a truth", dict: "an object"}
    return names.get(type(value), "null")


Read = Callable[[Progress | None], Iterator[tuple[int, Document]]]

MOST_NAMES = 100_000
_SAMPLE = 200
_BATCH_NUMBERS = 2**21


class DocumentTable:
    """A table of documents that need not all have the same features.

    `read` yields the documents, each with its line. `knows_names` is False until all rows are read, unless the names of
    the features are given.
    """

    def __init__(self, path: str, format: Format, wanted: Wanted, read: Read) -> None:
        self.path, self._wanted, self._read = path, wanted, read
        sample = list(islice(read(None), _SAMPLE))
        if not sample:
            raise FormatError(path, 1, 1, "the file has no documents")
        documents = [document for _, document in sample]
        keys = list(dict.fromkeys(name for document in documents for name in document.scalars))
        others = set().union(*(document.others for document in documents))
        self._roles, guessed = find_roles(path, keys, wanted, others)
        keys = list(dict.fromkeys([*keys, *(name for document in documents for name in document.own)]))
        self._texts = {name for name in keys if not _holds_numbers(name, documents)}
        inner = (name for document in documents for name in document.features or ())
        self._known = list(dict.fromkeys([*keys, *inner]))
        self.unused: dict[str, int] = {}
        self.knows_names = wanted.features is not None or not wanted.with_features
        self._index = {name: j for j, name in enumerate(wanted.features or ()) if wanted.with_features}
        self._seen: set[str] = set()
        for line, document in sample:
            self._vector(line, document)
        if len(sample) < _SAMPLE:
            self._check_names()
        taken = {*self._roles.values(), *self._index}
        ignored = [name for name in keys if name not in taken]
        self.columns = TableColumns(path, format, self._roles, self.names, tuple(ignored), guessed)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features that are known, in the order of their first appearance."""
        return tuple(self._index)

    def rows(self, progress: Progress | None = None) -> Iterator[Rows]:
        """Read the rows, a batch at a time."""
        batch: list[tuple[int, Document, Mapping[str, float]]] = []
        self.unused = {}
        for line, document in self._read(progress):
            batch.append((line, document, self._vector(line, document)))
            if len(batch) * max(len(self._index), 16) >= _BATCH_NUMBERS:
                yield self._batch(*zip(*batch, strict=True))
                batch = []
        if batch:
            yield self._batch(*zip(*batch, strict=True))
        self._check_names()
        self.knows_names = True

    def labels(self, column: str) -> Iterator[tuple[list[Any], list[Any]]]:
        """Read the queries and the values of a key of all rows."""
        is_there = False
        for line, document in self._read(None):
            value = document.get(column)
            is_there |= value is not None
            plain = value if value is None or isinstance(value, (str, int, float)) else json.dumps(value)
            yield self._ids([line], [document], "qid").tolist(), [plain]
        if not is_there:
            raise missing_column(self.path, column, self._known)

    def _check_names(self) -> None:
        """Raise if no document has had one of the features that the caller names."""
        absent = [name for name in self._index if name not in self._seen]
        if self._wanted.features is not None and absent:
            raise missing_column(self.path, absent[0], self._known)

    def _vector(self, line: int, document: Document) -> Mapping[str, float]:
        """Return the features of a document that are wanted, after adding their names to those that are known."""
        try:
            vector = self._features(document)
        except ValueError as error:
            raise FormatError(self.path, line, 1, str(error)) from None
        if self._wanted.features is not None:
            vector = {name: value for name, value in vector.items() if name in self._index}
        for name in vector:
            if name not in self._seen:
                if len(self._seen) >= MOST_NAMES:
                    problem = f"there are more than {MOST_NAMES} names of features: are these names of documents?"
                    raise FormatError(self.path, line, 1, problem)
                self._seen.add(name)
                self._index.setdefault(name, len(self._index))
        return vector

    def _batch(
        self, lines: Sequence[int], documents: Sequence[Document], vectors: Sequence[Mapping[str, float]]
    ) -> Rows:
        def place(row: int, column: str) -> Place:
            value = documents[row].get(column)
            value = (documents[row].features or {}).get(column) if value is None else value
            return Place(lines[row], 1, str(value))

        columns: dict[str, Any] = {}
        for role in self._roles.keys() - {"qid"}:
            if holds_texts(role):
                values: Any = Texts(text or "" for text in self._ids(lines, documents, role))
            else:
                values = self._numbers(lines, documents, role)
            columns[column_of(role).name] = values
        qids = self._ids(lines, documents, "qid") if "qid" in self._roles else np.full(len(documents), None)
        return Rows(self.path, place, qids, columns, self._matrix(vectors), self.names)

    def _matrix(self, vectors: Sequence[Mapping[str, float]]) -> Features:
        """Return vectors as a matrix with NaN where a row has no value."""
        n_rows, width, dtype = len(vectors), len(self._index), self._wanted.dtype
        n_bytes = n_rows * width * dtype.itemsize
        if n_bytes > free_memory():
            raise MemoryError(f"{n_rows} rows of {width} features take {n_bytes / 1e9:.1f} GB, more than is available")
        X: Features = np.full((n_rows, width), np.nan, dtype)
        rows = np.repeat(np.arange(n_rows), [len(vector) for vector in vectors])
        columns = [self._index[name] for vector in vectors for name in vector]
        with np.errstate(over="ignore"):  # a value too large for float32 is infinite, which is an error of its row
            X[rows, columns] = np.array([value for vector in vectors for value in vector.values()])
        return X

    def _ids(self, lines: Sequence[int], documents: Sequence[Document], role: Role) -> npt.NDArray[Any]:
        name = self._roles[role]
        ids = np.empty(len(documents), dtype=object)
        for i, document in enumerate(documents):
            value = document.get(name)
            if isinstance(value, float) and math.isfinite(value):
                value = int(value) if value.is_integer() else value
            elif isinstance(value, bool) or (value is not None and not isinstance(value, (str, int))):
                problem = f"{name!r} must be a text or a number, got {json.dumps(value)[:80]}"
                raise FormatError(self.path, lines[i], 1, problem)
            text = None if value is None or value == "" else str(value)
            if text is not None and not text.isascii() and not is_unicode(text):
                problem = f"{name!r} must be Unicode, got half of a pair of surrogates in {json.dumps(text)[:80]}"
                raise FormatError(self.path, lines[i], 1, problem)
            ids[i] = text
        return ids

    def _numbers(self, lines: Sequence[int], documents: Sequence[Document], role: Role) -> Floats:
        name = self._roles[role]
        numbers = np.empty(len(documents))
        for i, document in enumerate(documents):
            value = document.get(name)
            try:
                numbers[i] = as_number("", value)
            except ValueError:
                problem = f"{describe_role(role)} must be a number (column {name!r}), got {json.dumps(value)[:80]}"
                raise FormatError(self.path, lines[i], 1, problem) from None
        return numbers

    def _features(self, document: Document) -> Mapping[str, float]:
        """Return the features of a document; count what else it has, and has no role."""
        wanted, with_features = self._wanted.features, self._wanted.with_features
        vector: dict[str, float] = {}
        if with_features and document.features is None:
            for name, value in document.own.items():
                if self._is_feature(name, value) if wanted is None else name in wanted:
                    vector[name] = as_number(name, value)
        for part in (document.own, (not with_features and document.features) or {}):
            for name, value in part.items():
                if name not in vector and name not in self._roles.values() and value is not None and value != "":
                    self.unused[name] = self.unused.get(name, 0) + 1
        return document.features if with_features and document.features is not None else vector

    def _is_feature(self, name: str, value: Any) -> bool:
        if name in self._roles.values() or name in self._texts or is_kept_apart(name, self._wanted):
            return False
        if value is None and name in FEATURE_LISTS:  # all features of the row are missing, not one of this name
            return False
        if name not in self._index and not _is_numeric(value):
            self._texts.add(name)
            return False
        return True


def _is_numeric(value: Any) -> bool:
    """Tell numbers, and what stands for a missing one, from text, lists and objects."""
    return is_number(value) if isinstance(value, str) else not isinstance(value, (dict, list))


def is_unicode(text: str) -> bool:
    """Tell texts from those with half of a pair of surrogates, which JSON can write and UTF-8 cannot."""
    return text == text.encode(errors="ignore").decode()


def _holds_numbers(name: str, sample: list[Document]) -> bool:
    """Tell numbers from text: most values are numbers, so that one that is not is an error."""
    values = [value for document in sample if (value := document.own.get(name)) is not None]
    return 2 * sum(map(_is_numeric, values)) >= len(values)
