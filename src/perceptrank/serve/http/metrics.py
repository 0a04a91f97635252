"""Metrics for Prometheus."""

from collections.abc import Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from perceptrank.serve.http.access import Access
from perceptrank.serve.service import Service

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class _State(Collector):
    """The state of all rankers, and the times at which tokens expire and were used, asked for when the metrics are."""

    def __init__(self, service: Service, access: Access) -> None:
        self._service, self._access = service, access

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of all rankers and tokens."""
        about = {
            "model_version": (GaugeMetricFamily, "Number of the last log entry that was learned"),
            "answers": (CounterMetricFamily, "Answers that were logged"),
            "dropped_impressions": (CounterMetricFamily, "Lists that were shown and could not be logged"),
            "refused_answers": (CounterMetricFamily, "Answers that the learner could not learn from"),
            "waiting_answers": (GaugeMetricFamily, "Answers that wait to be logged"),
            "waiting_rankings": (GaugeMetricFamily, "Rankings that wait for an answer"),
            "log_bytes": (GaugeMetricFamily, "Size of the log"),
            "learning": (GaugeMetricFamily, "1 if answers are learned, 0 if the log cannot be written"),
            "entries_behind": (GaugeMetricFamily, "Log entries of the primary that a replica has not learned"),
            "contact_seconds": (GaugeMetricFamily, "Time since a replica has last read the log of its primary"),
        }
        states = {name: ranker.status() for name, ranker in self._service.rankers.items()}
        for key, (kind, text) in about.items():
            family = kind(f"perceptrank_{key}", text, labels=["ranker"])
            for name, status in states.items():
                if key in status:
                    family.add_metric([name], float(status[key]))
            yield family
        expires = GaugeMetricFamily("perceptrank_token_expires_seconds", "Unix time", labels=["token"])
        used = GaugeMetricFamily("perceptrank_token_last_used_seconds", "Unix time", labels=["token"])
        for token in self._access.tokens:
            if token.expires is not None:
                expires.add_metric([token.name], token.expires)
            if token.name in self._access.last_used:
                used.add_metric([token.name], self._access.last_used[token.name])
        yield from (expires, used)


class Metrics:
    """Counts and times of requests, the state of the rankers, and what the process takes."""

    def __init__(self, service: Service, access: Access) -> None:
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._registry = CollectorRegistry()
        self._registry.register(_State(service, access))
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._requests = Counter(
            "perceptrank_requests", "Requests by path and status", ["path", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "perceptrank_request_seconds", "Time of requests", ["path"], registry=self._registry, buckets=_SECONDS
        )

    def count(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        if (known := self._known.get((path, status))) is None:
            known = self._requests.labels(path, str(status)), self._seconds.labels(path)
            self._known[path, status] = known
        known[0].inc()
        known[1].observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)
