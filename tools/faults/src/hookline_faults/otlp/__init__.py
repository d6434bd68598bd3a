"""Test helpers for OTLP exporters: a collector, span trees, sample requests."""

from hookline_faults.otlp.collector import Identity, Inbox, Receiver
from hookline_faults.otlp.samples import (
    CLIENT_SPAN,
    SPAN_ID,
    START,
    TRACE_ID,
    TRACED,
    at,
    ended,
)
from hookline_faults.otlp.tree import draw

__all__ = [
    "CLIENT_SPAN",
    "SPAN_ID",
    "START",
    "TRACED",
    "TRACE_ID",
    "Identity",
    "Inbox",
    "Receiver",
    "at",
    "draw",
    "ended",
]
