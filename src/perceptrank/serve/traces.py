"""Spans for OpenTelemetry: of requests, of batches that are logged, and of blocks that are learned. Off by default.

Spans have no bodies, no ids of rankings, events and documents, and no tokens.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from perceptrank.serve.service import Service

_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_tracer: Any = None  # None while they are off


def set_up(*, wanted: bool) -> None:
    """Send spans to a collector if that is wanted, or OpenTelemetry's variables of the environment say where to."""
    exporter = os.environ.get(_EXPORTER, "")
    if exporter not in ("", "otlp", "none"):
        raise ValueError(f"{_EXPORTER} must be otlp or none, got {exporter}")
    wanted = wanted or bool(exporter) or any(os.environ.get(name) for name in _ENDPOINTS)
    if not wanted or exporter == "none" or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise ImportError("traces need OpenTelemetry: pip install 'perceptrank[otel]'") from None
    is_named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    provider = TracerProvider(resource=Resource.create({} if is_named else {"service.name": "perceptrank"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    turn_on(provider)


def turn_on(provider: Any) -> None:
    """Give spans to a provider, or to none."""
    global _tracer  # noqa: PLW0603
    _tracer = None if provider is None else provider.get_tracer("perceptrank.serve")


def span(name: str, ranker: str, n_entries: int) -> AbstractContextManager[Any]:
    """Return the context of a span about entries of the log of a ranker, which does nothing while they are off."""
    if _tracer is None:
        return nullcontext()
    about = {"perceptrank.ranker": ranker, "perceptrank.entries": n_entries}
    return _tracer.start_as_current_span(name, attributes=about)  # type: ignore[no-any-return]


def traced(answer: ASGIApp, path: str, service: Service) -> ASGIApp:
    """Return what answers requests of a path within spans; the same as before while they are off."""
    return answer if _tracer is None else _Traced(answer, path, service)


class _Traced:
    """Answers requests within spans, which continue the traces that their headers name."""

    def __init__(self, answer: ASGIApp, path: str, service: Service) -> None:
        self._answer, self._path, self._service = answer, path, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind, StatusCode

        ranker = scope.get("path_params", {}).get("name", self._service.first)
        about = {"http.request.method": scope["method"], "http.route": self._path}
        about |= {"perceptrank.ranker": ranker} if ranker in self._service.rankers else {}
        before = extract({name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]})
        name = f"{scope['method']} {self._path}"
        with _tracer.start_as_current_span(name, before, SpanKind.SERVER, about) as current:

            async def note_status(message: Message) -> None:
                if message["type"] == "http.response.start":
                    current.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        current.set_status(StatusCode.ERROR)
                await send(message)

            await self._answer(scope, receive, note_status)
