"""OpenTelemetry, with the extra `otel`: a span for each run, under the one that enqueued it (its context is in the payload's `_trace`)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Mapping

from opentelemetry import propagate, trace

from .hooks import Hooks
from .runs import RunBase


def traced(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload with the present trace context: `enqueue(db, "report", traced({"day": "2026-11-24"}))`."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return {**payload, "_trace": carrier}


class Tracing(Hooks):
    """`Worker(…, hooks=Tracing())`."""

    def around(self, run: RunBase[Any, Any]) -> AbstractContextManager[object]:
        attributes: dict[str, str | int] = {"messaging.system": "pg_scheduler", "messaging.message.id": str(run.execution_id), "pg_scheduler.attempt": run.attempt}
        context = propagate.extract(run.payload.get("_trace") or {} if isinstance(run.payload, dict) else {})
        span: AbstractContextManager[object] = trace.get_tracer("pg_scheduler").start_as_current_span(
            run.job_name, context=context, kind=trace.SpanKind.CONSUMER, attributes=attributes
        )
        return span
