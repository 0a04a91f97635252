"""Asking Solr, with its learning-to-rank module, for the scores of documents."""

import secrets
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np

from perceptrank.deploy.engines.elasticsearch_server import in_place
from perceptrank.deploy.engines.engine_server import EngineError, EngineServer, Removal
from perceptrank.kernels.arrays import Floats, Ints

_AT_ONCE = 500  # documents in a request
_FORM = "application/x-www-form-urlencoded"


def engine_of(server: EngineServer) -> str:
    """Name the version of Solr."""
    lucene = server.ask("GET", "/admin/system?wt=json").get("lucene", {})
    if "solr-spec-version" not in lucene:
        raise EngineError(f"{server.address} does not tell its version: it is no core of Solr")
    return f"Solr {lucene['solr-spec-version']} at {server.address}"


def scores_of(
    server: EngineServer,
    features: Callable[[str, list[str]], Any],
    model: Callable[[str], Any],
    columns: Any,
    offsets: Ints,
) -> Floats:
    """Return the scores that Solr gives to documents, which are put into an empty core and removed again.

    Parameters
    ----------
    server : EngineServer
        A core or collection without documents, whose configuration has the query parser ltr.
    features : callable
        Returns the features of a store, which have the values in some fields, as the request's body.
    model : callable
        Returns the request's body of a model with a name, whose features are in a store of that name.
    columns : array of shape (documents, features)
        Values of float32.
    offsets : array
        Where queries start and end.
    """
    found = _select(server, {"q": "{!lucene}*:*", "rows": "0"})["response"]["numFound"]
    if found:
        raise ValueError(
            f"{server.address} has {found:,} documents, among which parity puts none: give it an empty core or "
            "collection, which is empty again afterwards"
        )
    key = server.ask("GET", "/schema/uniquekey?wt=json")["uniqueKey"]
    name = f"perceptrank_{secrets.token_hex(8)}"
    fields = [f"{name}_{j}_f" for j in range(columns.shape[1])]
    with server.leaving_nothing() as removals:
        store, models = "/schema/feature-store", "/schema/model-store"
        try:
            server.make(removals, Removal("DELETE", f"{store}/{name}"), "PUT", store, features(name, fields))
        except EngineError as error:
            if error.status in (400, 404, 405) and "/schema/" in str(error):
                raise EngineError(
                    f"{error}; is the learning-to-rank module in Solr, and the query parser ltr in solrconfig.xml?",
                    error.status,
                ) from None
            raise
        server.make(removals, Removal("DELETE", f"{models}/{name}"), "PUT", models, model(name))
        _add_documents(server, removals, name, key, fields, columns, offsets)
        scores = np.full(len(columns), np.nan)
        for q, (start, stop) in enumerate(pairwise(offsets.tolist())):
            asked = {
                "q": "{!lucene}*:*",
                "fq": f"{{!term f={name}_query_s}}{q}",
                "rq": f"{{!ltr model={name} reRankDocs={stop - start}}}",
                "fl": f"{key},score",
                "rows": str(stop - start),
            }
            ranked = _select(server, asked)["response"]["docs"]
            pairs = [(int(one[key].removeprefix(f"{name}_")), one["score"]) for one in ranked]
            scores[start:stop] = in_place(server, pairs, start, stop)
    return scores


def _add_documents(
    server: EngineServer,
    removals: list[Removal],
    name: str,
    key: str,
    fields: list[str],
    columns: Any,
    offsets: Ints,
) -> None:
    queries = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)).tolist()
    removals.append(Removal("POST", "/update?commit=true&wt=json", {"delete": {"query": f"{name}_query_s:[* TO *]"}}))
    for first in range(0, len(columns), _AT_ONCE):
        documents = []
        for i, row in enumerate(columns[first : first + _AT_ONCE].tolist(), first):
            values = {field: value for field, value in zip(fields, row, strict=True) if value}
            documents.append({key: f"{name}_{i}", f"{name}_query_s": str(queries[i]), **values})
        try:
            server.ask("POST", "/update?wt=json", documents)
        except EngineError as error:
            if error.status == 400:
                raise EngineError(
                    f"{error}; documents have a string in a field *_s and numbers in fields *_f, as the dynamic fields "
                    "of Solr's default schema are",
                    error.status,
                ) from None
            raise
    server.ask("POST", "/update?wt=json", {"commit": {}})


def _select(server: EngineServer, parameters: dict[str, str]) -> Any:
    form = urlencode({**parameters, "wt": "json"}, quote_via=quote).encode()
    return server.ask("POST", "/select", form, kind=_FORM)
