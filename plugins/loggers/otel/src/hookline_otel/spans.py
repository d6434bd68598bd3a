"""Encodes the SDK's spans as OTLP protobuf, several times as fast as its encoder."""

import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import Link, SpanContext, SpanKind, StatusCode

from hookline_otel.wire import attribute, constant_text, nested, varint

SLICE_SPANS = 32
SLICE_PAUSE_SECONDS = 0.0002
"""Pause after each slice. Encoding holds the interpreter's lock, so a whole batch at
once would stall an engine in the same process."""

# Encoded keys of the fields of OTLP's `Span`: field number × 8 + wire type. Fields may
# be written in any order.
_TRACE_ID: Final = b"\x0a\x10"  # with its length
_SPAN_ID: Final = b"\x12\x08"
_STATE: Final = b"\x1a"
_PARENT: Final = b"\x22\x08"
_NAME: Final = b"\x2a"
_KINDS: Final = {kind: b"\x30" + varint(kind.value + 1) for kind in SpanKind}
_TIMES: Final = struct.Struct("<cQcQ").pack  # after b"\x39" and b"\x41"
_ATTRIBUTE: Final = b"\x4a"
_DROPPED_ATTRIBUTES: Final = b"\x50"
_EVENT: Final = b"\x5a"
_DROPPED_EVENTS: Final = b"\x60"
_LINK: Final = b"\x6a"
_DROPPED_LINKS: Final = b"\x70"
_STATUS: Final = b"\x7a"
_FLAGS: Final = b"\x85\x01"
_PARENT_IS_HERE: Final = _FLAGS + struct.pack("<I", 0x100)
_PARENT_IS_REMOTE: Final = _FLAGS + struct.pack("<I", 0x300)
_LINKS_HERE: Final = b"\x35" + struct.pack("<I", 0x100)

_EVENT_TIME: Final = struct.Struct("<cQ").pack  # after b"\x09"
_EVENT_NAME: Final = b"\x12"
_EVENT_ATTRIBUTE: Final = b"\x1a"
_CODES: Final = {code: b"\x18" + varint(code.value) for code in StatusCode}
_MESSAGE: Final = b"\x12"


def encode_slowly(spans: Sequence[ReadableSpan]) -> Iterable[bytes]:
    """Yields encoded spans, and lets other threads run in between."""
    for number, span in enumerate(spans, start=1):
        yield encode(span)
        if number % SLICE_SPANS == 0:
            time.sleep(SLICE_PAUSE_SECONDS)


def encode(span: ReadableSpan) -> bytes:
    """Returns an encoded span."""
    context: SpanContext = span.context
    fields = [
        _TRACE_ID + context.trace_id.to_bytes(16),
        _SPAN_ID + context.span_id.to_bytes(8),
        constant_text(_NAME, span.name),
        _KINDS[span.kind],
        _TIMES(b"\x39", span.start_time or 0, b"\x41", span.end_time or 0),
        *_attributes(_ATTRIBUTE, span.attributes),
        *(_event(event) for event in span.events),
        *(_link(link) for link in span.links),
    ]
    if context.trace_state:
        fields.append(nested(_STATE, context.trace_state.to_header().encode()))
    if (parent := span.parent) is None:
        fields.append(_PARENT_IS_HERE)
    else:
        fields.append(_PARENT + parent.span_id.to_bytes(8))
        fields.append(_PARENT_IS_REMOTE if parent.is_remote else _PARENT_IS_HERE)
    if (status := span.status).status_code is not StatusCode.UNSET:
        message = nested(_MESSAGE, (status.description or "").encode())
        fields.append(nested(_STATUS, _CODES[status.status_code] + message))
    if span.dropped_attributes:
        fields.append(_DROPPED_ATTRIBUTES + varint(span.dropped_attributes))
    if span.dropped_events:
        fields.append(_DROPPED_EVENTS + varint(span.dropped_events))
    if span.dropped_links:
        fields.append(_DROPPED_LINKS + varint(span.dropped_links))
    return b"".join(fields)


def _attributes(tag: bytes, found: Mapping[str, Any] | None) -> list[bytes]:
    if not found:
        return []
    # The SDK's own mapping takes a lock for each of its items.
    plain = found.copy() if isinstance(found, MappingProxyType) else found
    return [attribute(tag, name, value) for name, value in plain.items()]


def _event(event: Event) -> bytes:
    return nested(
        _EVENT,
        _EVENT_TIME(b"\x09", event.timestamp)
        + constant_text(_EVENT_NAME, event.name)
        + b"".join(_attributes(_EVENT_ATTRIBUTE, event.attributes)),
    )


def _link(link: Link) -> bytes:
    """Links to a span of this plugin; the ids have the keys of a span's own."""
    context = link.context
    trace_id, span_id = context.trace_id.to_bytes(16), context.span_id.to_bytes(8)
    return nested(_LINK, _TRACE_ID + trace_id + _SPAN_ID + span_id + _LINKS_HERE)
