"""Documents in text files: lines of JSON, responses of search engines, and TREC files.

Elasticsearch and OpenSearch log features as ``fields._ltrlog[0].<log name>``, a list of ``{"name", "value"}`` without
the value of what did not match; Solr as the text ``[features]``. Neither names the query, which stands beside them.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from perceptrank.io.errors import FormatError
from perceptrank.io.tables.chunks import Progress, read_chunks
from perceptrank.io.tables.rows import parse_number

# Keys and columns that have all features of a row: Solr's transformer, and what people call theirs.
FEATURE_LISTS = ("[features]", "features", "fv", "feature_vector", "featurevector")
TREC_COLUMNS = {
    "qrels": ("query", "iteration", "document", "grade"),
    "run": ("query", "Q0", "document", "rank", "score", "tag"),
}
_DEEPEST = 4  # a response in a list of responses in a line
_SEPARATORS = re.compile(r"[,;\t]")


class Document(NamedTuple):
    """A document: what may name its query, id and grade; its features, if they stand apart; and what else it has.

    `others` are the fields of the document itself, which are looked up only by a name that the caller gives: a film has
    a "rating" too.
    """

    scalars: dict[str, Any]
    features: Mapping[str, float] | None
    others: Mapping[str, Any]

    def get(self, name: str) -> Any:
        """Return a value by its name, None if there is none; the first one of a list."""
        value = self.scalars.get(name, self.others.get(name))
        return value[0] if isinstance(value, list) and value else value


def read_json(path: str, progress: Progress | None = None) -> Iterator[tuple[int, Document]]:
    """Read the documents in lines of JSON, each with its line."""
    for text, first_line in read_chunks(path, progress=progress):
        for line, content in enumerate(text.split(b"\n"), first_line):
            if not content.strip():
                continue
            try:
                for document in _documents_of(json.loads(content)):
                    yield line, document
            except json.JSONDecodeError as error:
                problem = f"a line must be an object of JSON: {error.msg}"
                raise FormatError(path, line, error.colno, problem) from None
            except UnicodeDecodeError as error:
                problem = f"text must be UTF-8, got {content[error.start : error.start + 8]!r}"
                raise FormatError(path, line, error.start + 1, problem) from None
            except RecursionError:
                raise FormatError(path, line, 1, "a line is nested too deeply") from None
            except ValueError as error:
                raise FormatError(path, line, 1, str(error)) from None


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
            for j in (0, 2):
                try:
                    words[j].decode()
                except UnicodeDecodeError:
                    raise FormatError(path, line, j + 1, f"text must be UTF-8, got {words[j][:40]!r}") from None
            ids = {"query": words[0].decode(), "document": words[2].decode()}
            if format == "qrels":
                yield line, Document(ids | {"grade": max(_trec_number(path, line, words, 3, "grade"), 0.0)}, None, {})
            else:
                features = {name: _trec_number(path, line, words, j, name) for name, j in (("score", 4), ("rank", 3))}
                yield line, Document(ids, features, {})


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
            raise ValueError(f"feature {name!r} is there twice")
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


def _documents_of(line: Any, outer: dict[str, Any] | None = None, depth: int = 0) -> Iterator[Document]:
    """Yield the documents of a line; raise `ValueError` if it is not an object, or its features are wrong."""
    if not isinstance(line, dict) or depth > _DEEPEST:
        raise ValueError(f"a line must be an object with a document or a response, got {_kind(line)}")
    around = (outer or {}) | _scalars(line)
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
    elif isinstance(response, dict):
        yield from _documents_of(response, around, depth + 1)
    elif isinstance(responses, list):
        for inner in responses:
            yield from _documents_of(inner, around, depth + 1)
    elif "_id" in line and any(name in line for name in ("fields", "_source", "_index", "_score")):
        yield _read_hit(line, outer or {})
    else:
        nested = {
            key: value for key, value in line.items() if isinstance(value, (dict, list)) and key not in FEATURE_LISTS
        }
        yield Document(_scalars(line), _find_features(line), nested)


def _read_hit(hit: Any, outer: dict[str, Any]) -> Document:
    if not isinstance(hit, dict):
        raise ValueError(f"a hit must be an object, got {_kind(hit)}")
    fields, source = hit.get("fields"), hit.get("_source")
    fields = fields if isinstance(fields, dict) else {}
    logs = fields.get("_ltrlog")
    entries = [
        (str(log), values)
        for entry in (logs if isinstance(logs, list) else [])
        if isinstance(entry, dict)
        for log, values in entry.items()
    ]
    if not entries:
        raise ValueError("a hit has no fields._ltrlog: ask for it with the extension ltr_log and a named sltr query")
    features: dict[str, float] = {}
    for log, values in entries:
        prefix = f"{log}." if len(entries) > 1 else ""
        features |= {f"{prefix}{name}": value for name, value in _as_features(values).items()}
    own = {name: value for name, value in _scalars(hit).items() if name[0:1] != "_" or name == "_id"}
    others = (source if isinstance(source, dict) else {}) | {k: v for k, v in fields.items() if k != "_ltrlog"}
    return Document(outer | own, features, others)


def _read_solr_document(document: Any, outer: dict[str, Any]) -> Document:
    if not isinstance(document, dict):
        raise ValueError(f"a document must be an object, got {_kind(document)}")
    features = _find_features(document)
    if features is None:
        raise ValueError("a document has no [features]: ask for them with fl=id,[features]")
    own = {"id": document["id"]} if "id" in document else {}
    return Document(outer | own, features, document)


def _scalars(value: dict[str, Any]) -> dict[str, Any]:
    return {
        name: item for name, item in value.items() if not isinstance(item, (dict, list)) and name not in FEATURE_LISTS
    }


def _find_features(document: dict[str, Any]) -> dict[str, float] | None:
    """Return the features that stand together under one of the usual keys; None if there are none."""
    for value in (document[name] for name in FEATURE_LISTS if name in document):
        if isinstance(value, (dict, list)) or (isinstance(value, str) and ("=" in value or ":" in value or not value)):
            return _as_features(value)
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
        name = item.get("name") if isinstance(item, dict) else f"f{j}"
        if not isinstance(name, str):
            raise ValueError(f"a feature must have a name and a value, got {str(item)[:80]}")
        if name in features:
            raise ValueError(f"feature {name!r} is there twice")
        features[name] = as_number(name, item.get("value") if isinstance(item, dict) else item)
    return features


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", int: "a number", float: "a number", bool: "a truth", dict: "an object"}
    return names.get(type(value), "null")
