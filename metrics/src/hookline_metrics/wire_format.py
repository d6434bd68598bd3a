"""Encodes fields in the wire format of Protocol Buffers."""

import struct

_VARINT = 0
_FIXED64 = 1
_LENGTH_DELIMITED = 2
_NEGATIVE = 1 << 64


_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))


def varint(value: int) -> bytes:
    """Encodes an integer, seven bits a byte; a negative one takes ten."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    if value < 0:
        value += _NEGATIVE
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def integer(field: int, value: int) -> bytes:
    """Encodes a field of an integer, a truth value or an enumeration."""
    return varint(field << 3 | _VARINT) + varint(value)


def signed(field: int, value: int) -> bytes:
    """Encodes a field of a signed integer of the types sint32 and sint64.

    Integers near 0 are short: 0, -1, 1, -2 … become 0, 1, 2, 3 …
    """
    return integer(field, 2 * value if value >= 0 else -2 * value - 1)


def fixed(field: int, value: int) -> bytes:
    """Encodes a field of type fixed64."""
    return varint(field << 3 | _FIXED64) + struct.pack("<Q", value)


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | _FIXED64) + struct.pack("<d", value)


def message(field: int, *parts: bytes) -> bytes:
    """Encodes a field of a message, whose fields are the parts."""
    return varint(field << 3 | _LENGTH_DELIMITED) + delimited(*parts)


def text(field: int, value: str) -> bytes:
    """Encodes a field of text; lone surrogates become backslash escapes."""
    return message(field, value.encode(errors="backslashreplace"))


def delimited(*parts: bytes) -> bytes:
    """Encodes a message after its length."""
    body = b"".join(parts)
    return varint(len(body)) + body
