"""A client of the service, which needs nothing but the standard library."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import local
from typing import Any, Self
from urllib.parse import quote, urlsplit
from uuid import uuid4

from perceptrank.serve.errors import KINDS, ServiceError
from perceptrank.stream.validation import ParameterError

_RETRIED = (ConnectionError, HTTPException, TimeoutError)


class Client:
    """A client of `perceptrank serve`.

    Methods raise a `ValueError` for wrong values, a `LookupError` for ids that are unknown or have expired, a
    `PermissionError` for a token that is unknown or lacks a scope, an `OSError` if the service cannot be reached or
    cannot learn now. All but those of the connection are a `perceptrank.serve.ServiceError`.

    A request whose connection broke is sent again: answers have an `event_id`, so that none is learned twice. Only
    changes of the model and of its challengers are sent once; if the connection breaks, `versions` tells whether they
    were made. Threads may share a client. Methods take:

    - `documents`: a mapping from ids to features, or a list of {"id": …, "features": …}; features are a mapping from
      names to numbers, or a list of numbers;
    - `grades`: a mapping from ids of documents to grades;
    - `clicks`: the ids of documents that were clicked, or a mapping from ids to numbers from 0 to 1;
    - `examined`: what the user has looked at: ids of documents, or the last place, counted from 1;
    - `more`: more clicks may follow, and all are learned from together;
    - `ranking_id`: the id that `rank` has returned;
    - `event_id`: the id of the answer, which counts once; by default that of the ranking, which is then answered once;
    - `weight`: the weight of the query;
    - `omit_ungraded`: leave out documents without a grade; by default, their grade is 0;
    - `name`: the name of a challenger;
    - `version`: any version from 1 on;
    - `model`: a learner; to promote, also the name of another ranker; to add a challenger, also an algorithm's name or
      a version of this ranker;
    - `measure`: the measure used to compare a challenger with the model that ranks, see `ServedRanker`;
    - `target`: one of `perceptrank.deploy.targets()`.

    Parameters
    ----------
    url : str
        Address of the service, like http://host:port; anything else is a `ValueError`.
    token : str, optional
        Token, if the service has some.
    ranker : str, optional
        Name of the ranker; by default the service's first.
    timeout : float
        Seconds to wait for a response.
    retries : int
        How often a request is sent again if the connection breaks, with growing pauses.

    Examples
    --------
    With a service that runs (`perceptrank serve --data shop`):

    ```python
    with pr.Client("http://127.0.0.1:8080") as client:
        ranked = client.rank({"shoe": {"bm25": 4.1, "price": 80}, "boot": {"bm25": 3.9, "price": 60}})
        client.clicks(ranked["ranking_id"], ["boot"])
    ```
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        token: str | None = None,
        ranker: str | None = None,
        timeout: float = 30.0,
        retries: int = 3,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ParameterError("url", "must be like http://host:port", url)
        self.url, self.timeout, self.retries = url, timeout, retries
        self._parts, self._token = parts, token
        self._base = parts.path.rstrip("/") + ("/v1" if ranker is None else f"/v1/rankers/{quote(ranker, safe='')}")
        self._own = local()

    def rank(
        self,
        documents: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        contributions: bool = False,
        shown: bool = False,
        explore: bool = True,
        places: int | None = None,
        keep: int = 0,
        session: str | None = None,
        user_query: str | None = None,
    ) -> dict[str, Any]:
        """Rank documents.

        The result has `ranking_id`, `order` (ids, best first), `scores` (by id), `model_version`, `contributions` if
        asked for, and `policy` and `places` (how many documents are shown, in the order of the exploration policy).

        Parameters
        ----------
        contributions : bool
            Return also what each feature adds to each score.
        shown : bool
            The ranking is shown, also if it is not explored: no click on it says something too.
        explore : bool
            The ranking may be explored.
        places : int, optional
            How many documents are shown.
        keep : int
            How many of the best documents are not explored.
        session, user_query : str, optional
            Who asks for what. A session that asks again for the same query and documents gets the same list.
        """
        body = {"documents": _documents(documents), "contributions": contributions, "shown": shown, "explore": explore}
        body |= {"places": places, "keep": keep or 0, "session": session, "user_query": user_query}
        return self._request("POST", "/rank", body)

    def feedback(
        self,
        ranking_id: str,
        grades: Mapping[str, float],
        *,
        event_id: str | None = None,
        weight: float = 1.0,
        omit_ungraded: bool = False,
    ) -> dict[str, Any]:
        """Answer a ranking. When it returns, the answer is on disk.

        The result has `event_id`, `sequence` (the entry in the log) and `duplicate` (True if it was there before).
        """
        body = {"ranking_id": ranking_id, "grades": dict(grades), "weight": weight, "omit_ungraded": omit_ungraded}
        return self._request("POST", "/feedback", body | {"event_id": event_id or None})

    def clicks(
        self,
        ranking_id: str,
        clicks: Mapping[str, float] | Iterable[str],
        *,
        examined: Iterable[str] | int | None = None,
        more: bool = False,
        event_id: str | None = None,
    ) -> dict[str, Any]:
        """Say what was clicked in a ranking that was shown, and return what `feedback` does, perhaps a `warning`."""
        listed = dict(clicks) if isinstance(clicks, Mapping) else list(clicks)
        seen = examined if examined is None or isinstance(examined, int) else list(examined)
        body = {"ranking_id": ranking_id, "clicks": listed, "examined": seen, "more": more}
        return self._request("POST", "/clicks", body | {"event_id": event_id or None})

    def learn(
        self,
        documents: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        grades: Mapping[str, float],
        *,
        event_id: str,
        weight: float = 1.0,
        omit_ungraded: bool = False,
    ) -> dict[str, Any]:
        """Send a query and its answer at once, and return what `feedback` does."""
        body = {"grades": dict(grades), "event_id": event_id, "weight": weight, "omit_ungraded": omit_ungraded}
        return self._request("POST", "/learn", {"documents": _documents(documents), **body})

    def learn_many(self, queries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Send queries and their answers in bulk; return for each what `learn` would, or {"error": …}.

        Parameters
        ----------
        queries : iterable of {"documents": …, "grades": …, "event_id": …}
            At most 10,000. Those without an `event_id` get one.
        """
        plain = (
            {**query, "documents": _documents(query["documents"]), "event_id": query.get("event_id") or uuid4().hex}
            for query in queries
        )
        lines = [json.dumps(query, allow_nan=False) for query in plain]
        content = self._send("POST", "/learn", "\n".join(lines).encode(), "application/x-ndjson")
        results: list[dict[str, Any]] = json.loads(content)["results"]
        return results

    def model(self) -> Any:
        """Return the model as it is now, to rank or learn with here; raise `FormatError` if its learner is unknown."""
        from perceptrank.io.model_file import parse_model
        from perceptrank.learners.registry import restore

        return restore(self.url, parse_model(self.url, self._send("GET", "/model")))

    def versions(self) -> dict[str, Any]:
        """Return `model_version`, the current one, and `snapshots`, the versions that have one."""
        return self._request("GET", "/model/versions")

    def roll_back(self, version: int) -> int:
        """Go back to a version; return the number of the new version."""
        return self._change("/model/rollback", {"version": version})

    def promote(self, model: Any) -> int:
        """Rank with another model from now on; return the number of the new version."""
        body = {"ranker": model} if isinstance(model, str) else {"model": _as_plain(model)}
        return self._change("/model/promote", body)

    def challengers(self) -> dict[str, Any]:
        """Return the model that ranks, and how its challengers compare, as `ServedRanker.standings` does."""
        return self._request("GET", "/challengers")

    def add_challenger(self, name: str, model: Any, *, measure: str | None = None) -> int:
        """Let a model learn silently from the same answers; return the number of the new version."""
        kind = {str: "algorithm", int: "version"}.get(type(model), "model")
        source = _as_plain(model) if kind == "model" else model
        return self._change("/challengers/add", {"name": name, "measure": measure, kind: source})

    def remove_challenger(self, name: str) -> int:
        """Remove a challenger; return the number of the new version."""
        return self._change("/challengers/remove", {"name": name})

    def promote_challenger(self, name: str) -> int:
        """Rank with a challenger from now on; return the number of the new version."""
        return self._change("/model/promote", {"challenger": name})

    def export(self, target: str) -> bytes:
        """Return the model as the file of another engine."""
        return self._send("GET", f"/export/{quote(target, safe='')}")

    def close(self) -> None:
        """Close the connection of this thread."""
        if (connection := getattr(self._own, "connection", None)) is not None:
            connection.close()
            self._own.connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _request(self, method: str, path: str, body: Any = None, *, once: bool = False) -> dict[str, Any]:
        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        response: dict[str, Any] = json.loads(self._send(method, path, content, once=once))
        return response

    def _change(self, path: str, body: Any) -> int:
        self.close()  # a connection that was idle may be closed, and the request is not sent again
        return int(self._request("POST", path, body, once=True)["model_version"])

    def _send(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json", *, once: bool = False
    ) -> bytes:
        """Send a request, again if the connection breaks; with `once`, only until there is a connection."""
        headers = {"Content-Type": kind} if body is not None else {}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        is_sent = False
        for attempt in range(self.retries + 1):
            try:
                connection = self._connection()
                if connection.sock is None:
                    connection.connect()
                is_sent = True
                connection.request(method, self._base + path, body, headers)
                response = connection.getresponse()
                content = response.read()
                break
            except _RETRIED as error:
                self.close()
                if once and is_sent:
                    raise ConnectionError(
                        f"{self.url} did not answer: {type(error).__name__} {error}; the change may have been made: "
                        "see versions()"
                    ) from error
                if attempt == self.retries:
                    raise ConnectionError(f"cannot reach {self.url}: {type(error).__name__} {error}") from error
                time.sleep(0.1 * 2**attempt)
        if response.status >= 400:
            raise _error(response.status, content)
        return content

    def _connection(self) -> HTTPConnection:
        connection: HTTPConnection | None = getattr(self._own, "connection", None)
        if connection is None:
            kind = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
            connection = kind(self._parts.hostname or "", self._parts.port, timeout=self.timeout)
            self._own.connection = connection
        return connection


def _documents(documents: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> list[Any]:
    if isinstance(documents, Mapping):
        return [{"id": name, "features": features} for name, features in documents.items()]
    return list(documents)


def _as_plain(model: Any) -> Any:
    from perceptrank.io.model_file import model_text

    return json.loads(model_text(model.as_document()))


def _error(status: int, content: bytes) -> ServiceError:
    try:
        error = json.loads(content)["error"]
        return KINDS.get(error["kind"], ServiceError)(error["message"], error["advice"])
    except (ValueError, KeyError, TypeError):
        return ServiceError(f"the response has status {status}", "is this a perceptrank service?")
