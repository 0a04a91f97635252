"""Random logs of clicks with every trap that real ones have, and a slow twin that reads them from the definition."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import Any

import numpy as np

MOST_PLACES = 10_000


def as_text(value: Any) -> str | None:
    """Return an id as text: 12, 12.0 and "12" are one id."""
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else str(value)


def as_time(value: Any) -> int | None:
    """Return milliseconds since 1970."""
    if value is None:
        return None
    text = str(value)
    if text.lstrip("-").isdigit():
        return int(text) if abs(int(text)) >= 10**11 else int(text) * 1000
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return round(time.timestamp() * 1000)


def as_ordinal(value: Any) -> int | None:
    """Return an ordinal, a whole number or an object with an index; None if it is no place in a list."""
    if isinstance(value, dict):
        value = value.get("index")
    if isinstance(value, str) and value.lstrip("-").isdigit():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and 0 <= value <= MOST_PLACES else None


class Impression:
    """What the log says about a query."""

    def __init__(self) -> None:
        self.user_query = self.session = self.event_session = self.event_query = None
        self.times: list[int] = []
        self.event_times: list[int] = []
        self.hits: dict[str, int] = {}
        self.seen: dict[str, list[int]] = {}
        self.clicks: dict[str, list[int]] = {}
        self.n_clicks: Counter[str] = Counter()
        self.first_named: dict[str, int] = {}


def read_slowly(
    queries: list[dict[str, Any]],
    events: list[dict[str, Any]],
    *,
    impressions: str = "seen",
    first_place: int | None = None,
    max_session_clicks: int | None = 200,
) -> dict[str, Any]:
    """Read a log of User Behavior Insights record by record; raise `ValueError` if the first place is ambiguous."""
    named: dict[str, Impression] = defaultdict(Impression)
    dropped: Counter[str] = Counter()
    session_clicks: Counter[str] = Counter()
    ids: set[str] = set()
    for number, record in enumerate([*queries, *events]):
        qid = as_text(record.get("query_id")) or None
        action = record.get("action_name")
        session = record.get("client_id") if record.get("session_id") is None else record["session_id"]
        time = as_time(record.get("timestamp"))
        if action is None:
            hits = record.get("query_response_hit_ids")
            if qid is None or (hits is None and record.get("user_query") is None):
                continue
            query = named[qid]
            query.user_query = record.get("user_query") if query.user_query is None else query.user_query
            query.session = session if query.session is None else query.session
            query.times += [] if time is None else [time]
            if hits and not query.hits:
                for place, docid in enumerate(hits, 1):
                    if as_text(docid):
                        query.hits.setdefault(as_text(docid), place)
            continue
        if action not in ("impression", "click", "click_through"):
            continue
        attributes = record.get("event_attributes") or {}
        docid = as_text((attributes.get("object") or {}).get("object_id"))
        ordinal = as_ordinal((attributes.get("position") or {}).get("ordinal"))
        is_click = action != "impression"
        if qid is None:
            dropped["without a query id"] += is_click
            continue
        if not docid:
            dropped["without a document"] += is_click
            continue
        if record.get("_id") is not None:
            if record["_id"] in ids:
                continue
            ids.add(record["_id"])
        query = named[qid]
        query.event_session = session if query.event_session is None else query.event_session
        query.event_query = record.get("user_query") if query.event_query is None else query.event_query
        query.event_times += [] if time is None else [time]
        query.first_named.setdefault(docid, number)
        places = (query.clicks if is_click else query.seen).setdefault(docid, [])
        places += [] if ordinal is None else [ordinal]
        if is_click:
            query.n_clicks[docid] += 1
            if session is not None:
                session_clicks[session] += 1
    if first_place is None:
        first_place = find_first_place(list(named.values()))
    limit = math.inf if max_session_clicks is None else max_session_clicks
    robots = {session for session, count in session_clicks.items() if count > limit}
    read, repeated = [], 0
    for qid, query in named.items():
        session = query.event_session if query.event_session is not None else query.session
        if session in robots:
            dropped[f"of sessions with more than {limit:,} clicks"] += query.n_clicks.total()
            continue
        if not query.hits and not query.seen:
            dropped["of queries whose results are unknown"] += query.n_clicks.total()
            continue
        rows = place_slowly(query, 0 if first_place is None else first_place, impressions, dropped)
        repeated += sum(query.n_clicks[docid] - 1 for docid, _, clicked, _ in rows if clicked)
        if rows:
            times = query.times or query.event_times
            read.append(
                {
                    "qid": qid,
                    "user_query": next((q for q in (query.user_query, query.event_query) if q is not None), ""),
                    "session": "" if session is None else session,
                    "time": min(times) if times else None,
                    "documents": rows,
                }
            )
    return {"impressions": read, "dropped": +dropped, "repeated": repeated, "first_place": first_place}


def find_first_place(queries: list[Impression]) -> int | None:
    """Return what ordinals are counted from; None if no place depends on it."""
    votes, is_needed = [0, 0], False
    for query in queries:
        for docid in query.seen.keys() | query.clicks.keys():
            ordinal = min(query.seen.get(docid) or query.clicks.get(docid) or [-9])
            if docid in query.hits and ordinal >= 0:
                for first in (0, 1):
                    votes[first] += ordinal - first == query.hits[docid] - 1
            if query.seen and (query.seen.get(docid) or (docid in query.hits and query.clicks.get(docid))):
                is_needed = True
        begins = min((place for places in query.seen.values() for place in places), default=None)
        if begins in (0, 1):
            votes[begins] += 1
    if not is_needed:
        return None
    if not any(votes) or max(votes) < 0.95 * sum(votes):
        raise ValueError("ambiguous")
    return int(votes[1] > votes[0])


def place_slowly(query: Impression, first_place: int, impressions: str, dropped: Counter[str]) -> list[Any]:
    """Return the documents of an impression with their places, clicks and whether they were examined."""
    rows = []
    for docid in {**query.hits, **query.first_named}:
        n_clicks = query.n_clicks[docid]
        hit = query.hits.get(docid)
        if docid not in query.hits and docid not in query.seen:
            dropped["on documents that were not in the list"] += n_clicks
            continue
        if not query.seen:
            place = hit
        elif docid in query.seen:
            logged = min(query.seen[docid], default=-1)
            place = logged - first_place + 1 if logged >= first_place else hit
        elif n_clicks:
            logged = min(query.clicks[docid], default=-1)
            place = logged - first_place + 1 if logged >= first_place else hit
        else:
            place = 0
        if place is None:
            dropped["on documents whose place is unknown"] += n_clicks
            continue
        examined = float("nan")
        if query.seen and impressions == "seen":
            examined = float(docid in query.seen or n_clicks > 0)
        rank = (docid not in query.seen, hit is None, hit if hit is not None else query.first_named[docid])
        rows.append((place == 0, place, rank, docid, float(n_clicks > 0), examined))
    kept = []
    for _, place, _, docid, clicked, examined in sorted(rows, key=lambda row: row[:3]):
        if place > 0 and kept and kept[-1][1] == place:
            dropped["on documents at the place of another one"] += query.n_clicks[docid]
            continue
        kept.append((docid, place, clicked, examined))
    return kept


def make_log(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    """Return queries, events and settings of a random log of User Behavior Insights."""
    rng = np.random.default_rng(seed)
    chance = rng.random

    def pick(*choices: Any) -> Any:
        return choices[int(rng.integers(len(choices)))]

    base, clean = int(rng.integers(2)), chance() < 0.3
    share_hits, share_seen = pick(0, 0.6, 1), pick(0, 0.6, 1)
    names = [pick(k, str(k), f"d{k}", f"é{k}") for k in range(8)]
    clock = 1_717_200_000_000
    queries: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []

    def stamp() -> Any:
        nonlocal clock
        clock += int(rng.integers(-500 if not clean else 0, 90_000))
        at = datetime.fromtimestamp(clock / 1000, UTC)
        iso = at.isoformat(timespec="milliseconds")
        if clean:
            return iso.replace("+00:00", "Z")
        return pick(
            iso.replace("+00:00", "Z"), iso, clock, str(clock), "yesterday", None, iso[:23], iso[:23].replace("T", " ")
        )

    def ordinal(place: int) -> dict[str, Any]:
        if clean or chance() < 0.8:
            return {"ordinal": pick(place + base, {"index": place + base})}
        return pick(
            {}, {"xy": {"x": 1, "y": 2}}, {"ordinal": pick(-1, 10**6, 2.5, "x", 10**30, None, str(place + base))}
        )

    for number in range(int(rng.integers(1, 7))):
        qid: Any = pick(number, str(number)) if chance() < 0.5 else f"q{number}"
        session = pick("s1", "s2", None)
        ids = [pick(names[k], str(names[k])) for k in rng.permutation(8)[: int(rng.integers(1, 6))]]
        query = {
            "query_id": qid,
            "user_query": pick("shoes", "hats", None),
            "client_id": pick("c1", None),
            "timestamp": stamp(),
        }
        if chance() < share_hits:
            query["query_response_hit_ids"] = list(ids) if clean else ids + pick([], [ids[0]], [None], [""])
        if clean or chance() < 0.9:
            queries.append(query)
        if not clean and chance() < 0.1:
            queries.append(query | {"query_response_hit_ids": ids[::-1]})
        if not clean and chance() < 0.1:
            queries.append({"user_query": "no id"})

        def event(action: str, docid: Any, position: Any, qid: Any = qid, session: Any = session) -> dict[str, Any]:
            made = {"action_name": action, "query_id": pick(qid, str(qid)), "session_id": session, "timestamp": stamp()}
            made |= {"client_id": "c9"} if chance() < 0.2 else {}
            made |= {"user_query": "boots"} if chance() < 0.2 else {}
            made |= {"_id": f"e{len(events)}"} if chance() < 0.5 else {}
            return made | {"event_attributes": {"object": {"object_id": docid}, "position": position}}

        is_seen = chance() < share_seen
        for place, docid in enumerate(ids):
            if is_seen and chance() < 0.9:
                at = place if clean or chance() < 0.95 else int(rng.integers(6))
                events.append(event("impression", docid, ordinal(at)))
            n_clicks = pick(0, 0, 0, 1, 1, 2)
            events.extend(event(pick("click", "click_through"), docid, ordinal(place)) for _ in range(n_clicks))
        if clean:
            continue
        for _ in range(int(rng.integers(3))):
            events.append(
                pick(
                    event("click", pick(names[-1], "elsewhere"), ordinal(3)),
                    event("click", pick(None, ""), {}),
                    {**event("click", ids[0], {}), "query_id": pick(None, "")},
                    {**event("impression", ids[0], {}), "query_id": None},
                    {**event("page_exit", None, {}), "event_attributes": None},
                    event("add_to_cart", ids[0], {}),
                    {"action_name": "click", "query_id": qid, "timestamp": stamp()},
                    {"message": "neither"},
                    *(events[-1:] or [event("impression", "z", {"ordinal": 5})]),
                )
            )
    settings = {
        "impressions": pick("seen", "shown"),
        "first_place": pick(None, None, base),
        "max_session_clicks": pick(200, None, 2, 4),
    }
    if not clean and chance() < 0.3:
        events = [events[k] for k in rng.permutation(len(events))]
    return queries, events, settings


def write_lines(path: Any, records: list[dict[str, Any]]) -> None:
    """Write records as lines of JSON."""
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
