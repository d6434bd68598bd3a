"""Encodes completed spans as OTLP protobuf."""

import os
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from hookline_otel.phases import Phase
from hookline_otel.trace_context import ClientSpan
from hookline_otel.wire import AttributeValue, attribute, constant_text, nested, varint

SPAN_ID_BYTES = 8

Pairs = Iterable[tuple[str, AttributeValue | None]]
"""Attribute names and values; None values are omitted."""

# Encoded keys of the fields of OTLP's `Span`: field number × 8 + wire type. Fields may
# be written in any order.
_TRACE_ID: Final = b"\x0a\x10"  # with its length
_SPAN_ID: Final = b"\x12\x08"
_STATE: Final = b"\x1a"
_PARENT: Final = b"\x22\x08"
_NAME: Final = b"\x2a"
_KIND: Final = b"\x30"
_TIMES: Final = struct.Struct("<cQcQ").pack  # after b"\x39" and b"\x41"
_ATTRIBUTE: Final = b"\x4a"
_EVENT: Final = b"\x5a"
_LINK: Final = b"\x6a"
_STATUS: Final = b"\x7a"
_FLAGS: Final = b"\x85\x01"
_PARENT_IS_HERE: Final = _FLAGS + struct.pack("<I", 0x100)
_PARENT_IS_REMOTE: Final = _FLAGS + struct.pack("<I", 0x300)

_EVENT_TIME: Final = struct.Struct("<cQ").pack  # after b"\x09"
_EVENT_NAME: Final = b"\x12"
_ERROR: Final = b"\x18\x02"
_MESSAGE: Final = b"\x12"


class SpanKind(IntEnum):
    """Span kinds by their OTLP numbers."""

    INTERNAL = 1
    SERVER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A span without a parent in this process.

    Attributes:
        name: Name of the span.
        start: Nanoseconds since the epoch.
        end: Nanoseconds since the epoch; raised to `start` if the clock was set back.
        trace_id: Id of the trace, 16 bytes.
        span_id: Id of the span, 8 bytes; None takes a new one.
        parent: The client's span, if any.
        kind: Kind of the span.
        attributes: Attributes of the span.
        events: Names and times; times are clamped to the span.
        error: Error message; None on success.
    """

    name: str
    start: int
    end: int
    trace_id: bytes
    span_id: bytes | None = None
    parent: ClientSpan | None = None
    kind: SpanKind = SpanKind.INTERNAL
    attributes: Pairs = ()
    events: Sequence[tuple[str, int]] = ()
    error: str | None = None


def encode_trace(root: Root, parts: Sequence[Phase]) -> list[bytes]:
    """Encodes the root and a child for each part, clamped to the root's time."""
    # Not from `random`: a program that seeds it would repeat its span ids.
    ids = os.urandom(SPAN_ID_BYTES * (1 + len(parts)))
    shared = _TRACE_ID + root.trace_id
    if root.parent is not None and root.parent.state:
        shared += nested(_STATE, root.parent.state.encode())
    root_id = root.span_id or ids[:SPAN_ID_BYTES]
    start, end = root.start, max(root.start, root.end)
    spans = [_root(root, shared + _SPAN_ID + root_id, start, end)]
    shared += _KIND + varint(SpanKind.INTERNAL) + _PARENT_IS_HERE
    shared += _PARENT + root_id + _SPAN_ID
    for number, part in enumerate(parts, start=1):
        low = _clamp(part.start, start, end)
        spans.append(
            shared
            + ids[number * SPAN_ID_BYTES : (number + 1) * SPAN_ID_BYTES]
            + constant_text(_NAME, part.name)
            + _TIMES(b"\x39", low, b"\x41", _clamp(part.end, low, end))
            + _completion(part.completion_index)
            + _link(root.trace_id, ids, part.follows)
        )
    return spans


def _completion(index: int | None) -> bytes:
    if index is None:
        return b""
    return attribute(_ATTRIBUTE, "hookline.completion_index", index)


def _link(trace_id: bytes, ids: bytes, position: int | None) -> bytes:
    """Links to the span of a phase; of links, the ids have the keys of spans."""
    if position is None:
        return b""
    at = (position + 1) * SPAN_ID_BYTES
    span_id = ids[at : at + SPAN_ID_BYTES]
    return nested(_LINK, _TRACE_ID + trace_id + _SPAN_ID + span_id)


def _root(root: Root, identity: bytes, start: int, end: int) -> bytes:
    fields = [
        identity,
        nested(_NAME, root.name.encode()),
        _KIND + varint(root.kind),
        _TIMES(b"\x39", start, b"\x41", end),
        *(
            attribute(_ATTRIBUTE, name, value)
            for name, value in root.attributes
            if value is not None
        ),
        *(_event(name, _clamp(at, start, end)) for name, at in root.events),
    ]
    if root.parent is None:
        fields.append(_PARENT_IS_HERE)
    else:
        fields += (_PARENT, root.parent.span_id, _PARENT_IS_REMOTE)
    if root.error is not None:
        message = nested(_MESSAGE, root.error.encode())
        fields.append(nested(_STATUS, _ERROR + message))
    return b"".join(fields)


def _event(name: str, at: int) -> bytes:
    return nested(_EVENT, _EVENT_TIME(b"\x09", at) + constant_text(_EVENT_NAME, name))


def _clamp(moment: int, low: int, high: int) -> int:
    return low if moment < low else min(moment, high)
