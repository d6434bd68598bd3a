"""The span in which a program calls, as the parent of its prompts."""

import sys

import msgspec

from hookline.request import RequestFacts


def in_callers_span(facts: RequestFacts) -> RequestFacts:
    """Returns facts whose parent is the current span, if they name none."""
    # A program that has not imported it has no span.
    if (
        facts.trace_context
        or facts.trace_id
        or "opentelemetry.trace" not in sys.modules
    ):
        return facts
    from opentelemetry.trace.propagation import tracecontext  # noqa: PLC0415

    context: dict[str, str] = {}
    tracecontext.TraceContextTextMapPropagator().inject(context)
    if not context:
        return facts
    return msgspec.structs.replace(facts, trace_context=context)
