"""For tests of whatever sends OTLP: a collector, a drawn trace, hand-made requests."""

from hookline_faults.otlp.collector import Identity, Inbox, Receiver
from hookline_faults.otlp.samples import CLIENT_SPAN, START, TRACE_ID, TRACED, at
from hookline_faults.otlp.tree import draw

__all__ = [
    "CLIENT_SPAN",
    "START",
    "TRACED",
    "TRACE_ID",
    "Identity",
    "Inbox",
    "Receiver",
    "at",
    "draw",
]
