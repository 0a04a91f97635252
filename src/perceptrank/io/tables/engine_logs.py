"""Documents in lines of JSON: one per line, or a response of a search engine with its hits.

Elasticsearch and OpenSearch log features as ``fields._ltrlog[0].<log name>``, a list of ``{"name", "value"}`` without
the value of what did not match; Solr as the text ``[features]``. Neither tells the query, which stands beside them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from perceptrank.io.tables.pairs import FEATURE_LISTS, parse_pairs
from perceptrank.io.tables.rows import parse_number

_DEEPEST = 4  # a response in a list of responses in a line


class Document(NamedTuple):
    """A document: what may tell its query, id and grade; its features, if they stand apart; and what else it has.

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


def documents_of(line: Any, outer: dict[str, Any] | None = None, depth: int = 0) -> Iterator[Document]:
    """Yield the documents of a line.

    Raises
    ------
    ValueError
        If the line is not an object, or its features are not what they should be.
    """
    if not isinstance(line, dict) or depth > _DEEPEST:
        raise ValueError(f"a line must be an object with a document or a response, got {_kind(line)}")
    around = (outer or {}) | _scalars(line)
    hits, response, responses = line.get("hits"), line.get("response"), line.get("responses")
    if isinstance(hits, dict) and isinstance(hits.get("hits"), list):
        for hit in hits["hits"]:
            yield _hit(hit, around)
    elif isinstance(response, dict) and isinstance(response.get("docs"), list):
        header = line.get("responseHeader")
        parameters = header.get("params") if isinstance(header, dict) else None
        asked = parameters.get("q") if isinstance(parameters, dict) else None
        for found in response["docs"]:
            yield _solr_document(found, ({"q": asked} if isinstance(asked, str) else {}) | around)
    elif isinstance(response, dict):
        yield from documents_of(response, around, depth + 1)
    elif isinstance(responses, list):
        for one in responses:
            yield from documents_of(one, around, depth + 1)
    elif "_id" in line and any(name in line for name in ("fields", "_source", "_index", "_score")):
        yield _hit(line, outer or {})
    else:
        name = next((name for name in FEATURE_LISTS if name in line and _is_features(line[name])), None)
        nested = {
            key: value for key, value in line.items() if isinstance(value, (dict, list)) and key not in FEATURE_LISTS
        }
        yield Document(_scalars(line), None if name is None else _features(line[name]), nested)


def _hit(hit: Any, outer: dict[str, Any]) -> Document:
    if not isinstance(hit, dict):
        raise ValueError(f"a hit must be an object, got {_kind(hit)}")
    fields, source = hit.get("fields"), hit.get("_source")
    fields = fields if isinstance(fields, dict) else {}
    features: dict[str, float] = {}
    logs = fields.get("_ltrlog")
    entries = [
        (str(log), values)
        for entry in (logs if isinstance(logs, list) else [])
        if isinstance(entry, dict)
        for log, values in entry.items()
    ]
    if not entries:
        raise ValueError("a hit has no fields._ltrlog: ask for it with the extension ltr_log and a named sltr query")
    for log, values in entries:
        prefix = f"{log}." if len(entries) > 1 else ""
        features |= {f"{prefix}{name}": value for name, value in _features(values).items()}
    own = {name: value for name, value in _scalars(hit).items() if name[0:1] != "_" or name == "_id"}
    others = (source if isinstance(source, dict) else {}) | {k: v for k, v in fields.items() if k != "_ltrlog"}
    return Document(outer | own, features, others)


def _solr_document(found: Any, outer: dict[str, Any]) -> Document:
    if not isinstance(found, dict):
        raise ValueError(f"a document must be an object, got {_kind(found)}")
    name = next((name for name in FEATURE_LISTS if name in found and _is_features(found[name])), None)
    if name is None:
        raise ValueError("a document has no [features]: ask for them with fl=id,[features]")
    own = {"id": found["id"]} if "id" in found else {}
    return Document(outer | own, _features(found[name]), found)


def _scalars(value: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in value.items() if not isinstance(one, (dict, list)) and name not in FEATURE_LISTS}


def _is_features(value: Any) -> bool:
    return isinstance(value, (dict, list)) or (isinstance(value, str) and ("=" in value or ":" in value or not value))


def _features(value: Any) -> dict[str, float]:
    """Return features from an object, a list of pairs or numbers, or the text of Solr."""
    if isinstance(value, str):
        return parse_pairs(value)
    if isinstance(value, dict):
        return {name: as_number(name, one) for name, one in value.items()}
    if not isinstance(value, list):
        raise ValueError(f"features must be an object or a list, got {_kind(value)}")
    found: dict[str, float] = {}
    for j, one in enumerate(value, 1):
        if isinstance(one, dict):
            name = one.get("name")
            if not isinstance(name, str):
                raise ValueError(f"a feature must have a name and a value, got {str(one)[:80]}")
        else:
            name = f"f{j}"
        if name in found:
            raise ValueError(f"feature {name!r} is there twice")
        found[name] = as_number(name, one.get("value") if isinstance(one, dict) else one)
    return found


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


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", int: "a number", float: "a number", bool: "a truth", dict: "an object"}
    return names.get(type(value), "null")
