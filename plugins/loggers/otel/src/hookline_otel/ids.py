"""Ids of traces and spans: the text that requests carry, and the SDK's numbers."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import SpanContext
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_TRACE_BYTES = 16
_SPAN_BYTES = 8
_HEX = frozenset("0123456789abcdef")
_w3c = TraceContextTextMapPropagator()


def trace_number(text: str) -> int:
    """Returns the number of a trace id; 0 if it is none, as facts may hold any text."""
    return _number(text, 2 * _TRACE_BYTES)


def span_number(text: str) -> int:
    """Returns the number of a span id; 0 if it is none, as facts may hold any text."""
    return _number(text, 2 * _SPAN_BYTES)


def find_parent(headers: Mapping[str, str], trace_id: int) -> SpanContext | None:
    """Returns the client's span, or None if no header names one of this trace."""
    parent = trace.get_current_span(_w3c.extract(headers)).get_span_context()
    return parent if parent.is_valid and parent.trace_id == trace_id else None


def _number(text: str, digits: int) -> int:
    is_id = len(text) == digits and _HEX.issuperset(text)
    return int(text, 16) if is_id else 0


class ChosenIds(IdGenerator):
    """Gives the next span the ids that the front end chose; others get new ones."""

    def __init__(self) -> None:
        self._next = threading.local()

    @contextmanager
    def chosen(self, trace_id: int, span_id: int) -> Iterator[None]:
        """Within it, this thread's spans have these ids; 0 leaves one open."""
        self._next.trace_id, self._next.span_id = trace_id, span_id
        try:
            yield
        finally:
            self._next.trace_id = self._next.span_id = 0

    # Not from `random`: a program that seeds it would repeat its ids.

    def generate_trace_id(self) -> int:
        chosen: int = getattr(self._next, "trace_id", 0)
        return chosen or int.from_bytes(os.urandom(_TRACE_BYTES)) or 1

    def generate_span_id(self) -> int:
        chosen: int = getattr(self._next, "span_id", 0)
        return chosen or int.from_bytes(os.urandom(_SPAN_BYTES)) or 1

    def is_trace_id_random(self) -> bool:
        return True
