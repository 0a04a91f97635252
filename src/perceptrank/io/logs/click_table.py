"""Tables of clicks: a row for each document that was shown, with its place, and if it was clicked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perceptrank.io.errors import FileFormatError
from perceptrank.io.logs.events import Log, parse_times, pl
from perceptrank.io.logs.records import Layout
from perceptrank.io.logs.report import Counts
from perceptrank.io.tables.columns import listed, missing_column, normalize
from perceptrank.io.tables.delimited import parse_words

# The usual names of columns, most telling first.
_USUAL: dict[str, tuple[str, ...]] = {
    "qid": ("impression_id", "impression", "qid", "query_id", "queryid", "search_id", "session_id", "session", "query"),
    "docid": ("docid", "doc_id", "document_id", "document", "doc", "product_id", "item_id", "item", "sku", "url", "id"),
    "place": ("place", "position", "rank", "ordinal", "pos"),
    "clicked": ("clicked", "click", "clicks", "is_click", "is_clicked"),
    "examined": ("examined",),
    "propensity": ("propensity",),
    "time": ("time", "timestamp"),
    "session": ("session", "session_id"),
    "policy": ("policy",),
    "user_query": ("user_query", "query_text", "query", "search_query", "search_term"),
}
CLICKED = " or ".join(_USUAL["clicked"])
_REQUIRED = ("qid", "docid", "place", "clicked")


def find_layout(path: str, names: Iterable[str], roles: Mapping[str, str]) -> Layout:
    """Find the columns of a table by the names that the caller gives, or by their usual ones."""
    known = {normalize(name): name for name in reversed(list(names))}
    layout: Layout = {}
    for role, usual in _USUAL.items():
        chosen = roles.get(role) or next((known[name] for name in usual if name in known), None)
        if chosen is not None:
            if chosen not in known.values():
                raise missing_column(path, chosen, list(known.values()))
            layout[role] = (chosen,)
        elif role in _REQUIRED:
            needs = "a table of clicks needs the impression, the document, its place, and if it was clicked"
            hint = f"; `{role}=…` names it" if role in ("qid", "docid") else f"; call it {' or '.join(usual)}"
            shown = listed(list(known.values()))
            raise FileFormatError(path, f" has no column known as {usual[0]!r}: {needs}; it has {shown}{hint}")
    if layout.get("user_query") == layout["qid"]:
        del layout["user_query"]
    return layout


def check_ids(path: str, layout: Layout, roles: Mapping[str, str], counts: Counts) -> None:
    """Raise `FileFormatError` if most rows name a document of their impression again: its id is in another column.

    A column that the caller names, or that is called impression, is believed: rows that are there twice are counted.
    """
    (name,) = layout["qid"]
    if roles.get("qid") or normalize(name) in _USUAL["qid"][:2] or 2 * counts.repeated_rows <= counts.table_rows:
        return
    raise FileFormatError(
        path,
        f": column {name!r} does not identify impressions: {counts.repeated_rows:,} of {counts.table_rows:,} rows name "
        f"a document ({layout['docid'][0]!r}) again; name the column that differs for each list shown with `qid=…`, or "
        f"{name!r} to read it nevertheless",
    )


def has_clicks(names: Iterable[str]) -> bool:
    """Tell if one of the columns of a table says what was clicked."""
    return any(normalize(name) in _USUAL["clicked"] for name in names)


def counts_from_one(layout: Layout) -> bool:
    """Tell if places are called as in our own files, where 0 is a document that was not shown."""
    return normalize(layout["place"][0]) == "place"


def split_records(frame: Any, path: str, layout: Layout, first_place: int | None, counts: Counts) -> Log:
    """Return an impression event for each row, and a click for those that were clicked."""
    names = {role: name for role, (name,) in layout.items()}
    absent = [pl.lit(None, pl.String).alias(role) for role in _USUAL if role not in layout]
    frame = frame.with_columns(*absent).filter(~pl.all_horizontal(pl.all().is_null() | (pl.all() == "")))
    clicked = _numbers(path, names["clicked"], frame["clicked"]).fill_null(0.0)
    examined = _numbers(path, names.get("examined", ""), frame["examined"])
    if (wrong := examined.filter((examined != 0) & (examined != 1))).len():
        raise FileFormatError(path, f": column {names['examined']!r} must hold 0, 1, or nothing, got {wrong[0]:g}")
    propensity = _numbers(path, names.get("propensity", ""), frame["propensity"])
    if (wrong := propensity.filter((propensity <= 0) | (propensity > 1))).len():
        rule = "must hold probabilities above 0, or nothing"
        raise FileFormatError(path, f": column {names['propensity']!r} {rule}, got {wrong[0]:g}")
    counts.noted["numbers of clicks above 1, taken as 1"] += int((clicked > 1).sum())
    places = frame["place"].cast(pl.Float64, strict=False)
    is_unshown = (places == 0).fill_null(False) if counts_from_one(layout) and first_place != 0 else pl.lit(False)
    rows = frame.select(
        "qid",
        "docid",
        "session",
        "user_query",
        "policy",
        is_click=pl.lit(False),
        ordinal=pl.when(~is_unshown & (places == places.floor())).then(places.cast(pl.Int64, strict=False)),
        has_ordinal=~is_unshown,
        time=parse_times(frame["time"], counts),
        amount=clicked.clip(0, 1),
        examined=examined,
        propensity=propensity,
        hit=pl.when(is_unshown).then(pl.lit(0, pl.Int64)),
    )
    clicks = rows.filter(pl.col("amount") > 0).with_columns(
        is_click=pl.lit(True), has_ordinal=pl.lit(False), hit=pl.lit(None, pl.Int64)
    )
    return Log.of(pl.concat([rows.with_columns(amount=pl.lit(0.0)), clicks]))


def _numbers(path: str, name: str, texts: Any) -> Any:
    """Return texts as numbers from 0 on, null where they are missing; raise for the first that is none."""
    numbers, wrong = parse_words(texts, pl.Float64)
    numbers = numbers.fill_nan(None)
    wrong |= (numbers < 0).fill_null(False)
    if wrong.any():
        raise FileFormatError(path, f": column {name!r} must hold numbers >= 0, got {texts.filter(wrong)[0]!r}")
    return numbers
