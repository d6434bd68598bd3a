"""Writes messages of protocol buffers, as far as traces need them."""

from struct import Struct

_fixed64 = Struct("<Q").pack
_double = Struct("<d").pack
_VARINT, _FIXED64, _BYTES = 0, 1, 2
_NEGATIVE = 1 << 64


def varint(value: int) -> bytes:
    """Returns a whole number, seven bits a byte; a negative one takes ten."""
    if value < 0:
        value += _NEGATIVE
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def whole(field: int, value: int) -> bytes:
    """Returns a field that is a whole number, a truth value or an enumeration."""
    return varint(field << 3 | _VARINT) + varint(value)


def fixed(field: int, value: int) -> bytes:
    """Returns a field of type `fixed64`."""
    return varint(field << 3 | _FIXED64) + _fixed64(value)


def real(field: int, value: float) -> bytes:
    """Returns a field of type `double`."""
    return varint(field << 3 | _FIXED64) + _double(value)


def nested(field: int, *parts: bytes) -> bytes:
    """Returns a field that is a message."""
    body = b"".join(parts)
    return varint(field << 3 | _BYTES) + varint(len(body)) + body


def text(field: int, value: str) -> bytes:
    """Returns a field that is text."""
    return nested(field, value.encode(errors="replace"))
