"""Answers of `_msearch` in Elasticsearch and OpenSearch, with the requests beside them, which tell what was asked."""

import json
from collections.abc import Iterator
from typing import Any

from perceptrank.io.errors import FileFormatError, FormatError
from perceptrank.io.tables.chunks import Progress, read_chunks, read_head, table_format
from perceptrank.io.tables.document_table import Document, documents_of, loads


def holds_requests(path: str) -> bool:
    """Tell if a file is the body of an `_msearch`: lines with a header and a search in turn."""
    if table_format(path) != "jsonl":
        return False
    lines = [line for line in read_head(path).split(b"\n") if line.strip()][:2]
    try:
        both = list(map(json.loads, lines))
    except ValueError:
        return False
    names = ("query", "rescore", "ext")
    kinds = [any(isinstance(line.get(name), dict) for name in names) for line in both if isinstance(line, dict)]
    return kinds == [False, True]


def read_msearch(requests: str, path: str, progress: Progress | None = None) -> Iterator[tuple[int, Document]]:
    """Read the documents of the answers in a file, each with what its request asked."""
    asked = list(_read_requests(requests))
    names = [own.get("_name") for _, own in asked]
    if len(asked) > 1 and None not in names and len(set(names)) == len(asked):  # else a name is that of all logs
        asked = [(line, {"query": own["_name"]} | own) for line, own in asked]
    text = b"".join(chunk.text for chunk in read_chunks(path, progress=progress))
    try:
        answers = loads(text.decode())
    except ValueError as error:
        raise FileFormatError(path, f" must be the answer to {requests}, an object of JSON: {error}") from None
    responses = answers.get("responses") if isinstance(answers, dict) else None
    if not isinstance(responses, list) or len(responses) != len(asked):
        n = len(responses) if isinstance(responses, list) else "no list of"
        problem = f" must have a response to each of the {len(asked)} requests in {requests}, got {n}"
        raise FileFormatError(path, problem)
    for number, ((line, own), response) in enumerate(zip(asked, responses, strict=True), 1):
        if isinstance(response, dict) and "error" in response:
            reason = json.dumps(response["error"])[:200]
            raise FormatError(requests, line, 1, f"the engine refused this request: {reason}")
        try:
            for document in documents_of(response, own):
                yield 1, document
        except ValueError as error:
            raise FormatError(path, 1, 1, f"response {number}: {error}") from None


def _read_requests(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read what each search asks with its `sltr`: the name of that query, and its parameters."""
    lines = b"".join(chunk.text for chunk in read_chunks(path)).split(b"\n")
    whole = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    for number, line in whole[1::2]:
        try:
            query = next(_find_sltr(json.loads(line)), None)
        except ValueError as error:
            raise FormatError(path, number, 1, f"a search must be an object of JSON: {error}") from None
        parameters = query.get("params") if query is not None else None
        if query is None or not (parameters or "_name" in query):
            raise FormatError(path, number, 1, "a search must have a query `sltr` with params, which say what is asked")
        texts = {name: value for name, value in (parameters or {}).items() if isinstance(value, str)}
        only = {"query": next(iter(texts.values()))} if len(texts) == 1 else {}
        yield number, only | {"_name": query.get("_name")} | texts


def _find_sltr(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the `sltr` queries anywhere in a search."""
    if isinstance(value, dict) and isinstance(value.get("sltr"), dict):
        yield value["sltr"]
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _find_sltr(inner)
