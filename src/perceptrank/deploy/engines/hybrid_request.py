"""Search pipelines of OpenSearch and retrievers of Elasticsearch with the weights of a hybrid query's clauses."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from perceptrank.deploy.engines.elasticsearch import field_query
from perceptrank.io.errors import FileFormatError
from perceptrank.stream.validation import ParameterError, as_number
from perceptrank.transforms.hybrid_scores import HybridScores

MOST_CLAUSES = 5  # of a hybrid query of OpenSearch
_WINDOW = 100  # documents of each clause that are ranked, in drafts
_PHASE, _NORMALIZER, _RANKER = "phase_results_processors", "normalization-processor", "score-ranker-processor"
_RETRIEVERS = ("linear", "rrf")
_OURS = ("normalization", "combination", "normalizer", "rank_constant")  # what is written anew
_THEIRS = {"min_max": "minmax", "l2": "l2_norm"}  # what Elasticsearch calls them
_KNOWN = (
    f"must be JSON: a search pipeline of OpenSearch with a {_NORMALIZER} or a {_RANKER}, or a search request of "
    "Elasticsearch with a linear or rrf retriever"
)


class HybridRequest(NamedTuple):
    """A file with the weights of a hybrid query."""

    scores: HybridScores
    weights: list[float] | None  # None if it has none: they are equal
    document: dict[str, Any]  # the file, or the part of it that is a pipeline
    kind: str  # name of the processor or retriever
    holder: dict[str, Any]  # the object in the document that has it, under that name


def read_request(path: str | Path) -> HybridRequest:
    """Read the file of a pipeline or a request; raise `FormatError` if hybrid search by it cannot be emulated."""
    try:
        document = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise FileFormatError(path, f" {_KNOWN}: {error}") from None
    try:
        return _read(document)
    except ValueError as error:
        raise FileFormatError(path, f": {error}") from None
    except (TypeError, AttributeError, KeyError):
        raise FileFormatError(path, f" {_KNOWN}, as the engine's reference has it") from None


def _read(document: Any) -> HybridRequest:
    pipelines = [each for each in _objects(document) if isinstance(each.get(_PHASE), list)]
    found = [
        (kind, each)
        for each in _objects(pipelines or document)
        for kind in ((_NORMALIZER, _RANKER) if pipelines else _RETRIEVERS)
        if isinstance(each.get(kind), dict) and (pipelines or isinstance(each[kind].get("retrievers"), list))
    ]
    if len(found) != 1:
        raise ValueError(f"{_KNOWN}; it has {len(found)} of these")
    kind, holder = found[0]
    read = _read_processor if pipelines else _read_retriever
    is_alone = bool(pipelines) and "search_pipeline" not in document  # even if it is under its name
    return HybridRequest(*read(kind, holder[kind]), pipelines[0] if is_alone else document, kind, holder)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inside in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(inside)


def _read_processor(kind: str, processor: dict[str, Any]) -> tuple[HybridScores, list[float] | None]:
    normalization, combination = processor.get("normalization") or {}, processor.get("combination") or {}
    wanted = "rrf" if kind == _RANKER else "arithmetic_mean"
    technique = combination.get("technique", wanted)
    if technique != wanted or normalization.get("parameters"):
        rule = f"must be {wanted}, and the normalization without parameters: others cannot be learned"
        raise ParameterError("the combination", rule, technique if technique != wanted else normalization["parameters"])
    weights = (combination.get("parameters") or {}).get("weights")
    if kind == _RANKER:
        scores = HybridScores("opensearch", "rrf", rank_constant=combination.get("rank_constant", 60))
    else:
        scores = HybridScores("opensearch", normalization.get("technique", "min_max"))
    return scores, _weights(weights) if weights else None


def _read_retriever(kind: str, retriever: dict[str, Any]) -> tuple[HybridScores, list[float] | None]:
    parts = retriever["retrievers"]
    if kind == "rrf":
        scores = HybridScores("elasticsearch", "rrf", rank_constant=retriever.get("rank_constant", 60))
    else:
        default = retriever.get("normalizer", "none")
        theirs = sorted({str(part.get("normalizer", default)) for part in parts})
        names = {their: name for name, their in _THEIRS.items()}
        if len(theirs) != 1 or theirs[0] not in names:
            raise ParameterError("normalizer", "must be minmax of all retrievers, or l2_norm of all", theirs)
        scores = HybridScores("elasticsearch", names[theirs[0]])
    return scores, _weights([part.get("weight", 1.0) for part in parts])


def _weights(values: Any) -> list[float]:
    for value in values:
        if not 0.0 <= as_number(value) < float("inf"):
            raise ParameterError("a weight", "must be a finite number >= 0", value)
    if not any(values):
        raise ParameterError("weights", "must not all be 0", values)
    return [float(value) for value in values]


def write_request(scores: HybridScores, weights: dict[str, float], current: HybridRequest | None) -> dict[str, Any]:
    """Return a pipeline or a request with these weights by clause: the current one, if any, with these."""
    values, is_rrf = list(weights.values()), scores.normalization == "rrf"
    old = None if current is None else current.holder[current.kind]
    made = {name: value for name, value in (old or {}).items() if name not in _OURS}
    constant = {"rank_constant": scores.rank_constant} if is_rrf else {}
    if scores.engine == "opensearch":
        kind, technique = (_RANKER, "rrf") if is_rrf else (_NORMALIZER, "arithmetic_mean")
        made |= {} if is_rrf else {"normalization": {"technique": scores.normalization}}
        made["combination"] = {"technique": technique, **constant, "parameters": {"weights": values}}
        draft: dict[str, Any] = {_PHASE: [{kind: made}]}
    else:
        kind, how = ("rrf", {}) if is_rrf else ("linear", {"normalizer": _THEIRS[scores.normalization]})
        drafts: list[Any] = [{"standard": {"query": field_query(name)}} for name in weights]
        inside = drafts if old is None else [part.get("retriever", part) for part in old["retrievers"]]
        parts = [{"retriever": part, "weight": value, **how} for part, value in zip(inside, values, strict=True)]
        made |= ({"rank_window_size": _WINDOW} if old is None else {}) | {"retrievers": parts, **constant}
        draft = {"size": 10, "retriever": {kind: made}}
    if current is None:
        return draft
    document, holder = copy.deepcopy((current.document, current.holder))  # in which the second is a part of the first
    holder.pop(current.kind)
    holder[kind] = made
    return document
