"""What is sent to sockets that are not HTTP: bytes, and messages of ZMQ."""

import random
import struct
from collections.abc import Callable, Sequence

import msgspec

from hookline_faults.fuzzing.mutator import mutated

GREETING = (
    b"\xff"
    + bytes(8)
    + b"\x7f\x03\x01"
    + b"NULL".ljust(20, b"\0")
    + b"\x00"
    + bytes(31)
)
"""ZMTP 3.1: signature, version, mechanism, role, filler."""
_SIZES = (0, 1, 255, 256, 2**16, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
_KINDS = (
    b"PUSH",
    b"PULL",
    b"DEALER",
    b"ROUTER",
    b"REQ",
    b"SUB",
    b"XPUB",
    b"",
    b"A" * 99,
)
_TAGS = (
    *("ask", "blocks", "denial", "release", "released", "offer", "reply"),
    *("Start", "Attach", "Detach", "Add", "Finish", "Call", "Hello", "Ready"),
    *("Failed", "Output", "Reply", "StartFailed", "nothing", ""),
)
_VALUES: Sequence[object] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63 - 1, -(2**63), 2**64 - 1, 0.5),
    *("", "a", "a" * 70_000, b"", b"\xff" * 32, [], {}, [1] * 1000),
    *([[[[[[[[]]]]]]]], {"a": {"b": {}}}, "\x00", float("nan"), float("inf")),
)


def line_bytes(source: random.Random) -> bytes:
    """Returns what a client writes to a ZMQ socket without ZMQ."""
    kind = source.randrange(7)
    if kind == 0:
        return source.randbytes(source.choice((0, 1, 10, 64, 1000, 50_000)))
    if kind == 1:
        return mutated(GREETING, source)
    if kind == 2:
        return b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    data = GREETING + _ready(source)
    for _ in range(source.randint(0, 4)):
        data += _frame(source)
    return mutated(data, source) if kind == 3 else data


def message(source: random.Random) -> list[bytes]:
    """Returns the frames of a message for a ZMQ socket."""
    kind = source.randrange(6)
    if kind == 0:
        return [source.randbytes(source.randint(0, 200)) for _ in range(_few(source))]
    if kind == 1:
        return [b""] * _few(source)
    if kind == 2:
        return [source.randbytes(8)]
    body = _body(source)
    if kind == 3:
        body = mutated(body, source)
    if kind == 4:
        body = b"hkln" + struct.pack("<HBI", source.randrange(40), 1, 0) + body
    return [body, *(source.randbytes(source.randrange(99)) for _ in range(3))][
        : _few(source)
    ]


def frames(source: random.Random, version: int) -> bytes:
    """Returns one frame for an engine's socket, of this schema version or another."""
    versions = (version, version, version + 1, 0, 65535)
    role, index = source.choice((0, 1, 1, 2, 255)), source.choice((0, 0, 1, 2**32 - 1))
    head = b"hkln" + struct.pack("<HBI", source.choice(versions), role, index)
    key = source.choice((b"", bytes(16), source.randbytes(16)))
    data = head + key + _body(source)
    change = source.randrange(5)
    if change == 0:
        return mutated(data, source)
    return data[: source.randint(0, len(data))] if change == 1 else data


def _body(source: random.Random) -> bytes:
    tag = source.choice(_TAGS)
    values = [source.choice(_VALUES) for _ in range(source.randint(0, 7))]
    as_array = [tag, *values]
    as_map = {"type": tag} | {f"field{at}": each for at, each in enumerate(values)}
    return msgspec.msgpack.encode(source.choice((as_array, as_map, values)))


def _ready(source: random.Random) -> bytes:
    kind = source.choice(_KINDS)
    size = struct.pack(">I", source.choice((len(kind), len(kind), 2**31, 2**32 - 1)))
    data = b"\x05READY\x0bSocket-Type" + size + kind
    if source.random() < 0.3:
        identity = source.randbytes(source.choice((0, 5, 255)))
        data += b"\x08Identity" + struct.pack(">I", len(identity)) + identity
    length = source.choice((len(data), len(data), 0, 255))
    return b"\x04" + struct.pack("B", length & 255) + data


def _frame(source: random.Random) -> bytes:
    makers: Sequence[Callable[[random.Random], bytes]] = (_short, _long, _command)
    return source.choice(makers)(source)


def _short(source: random.Random) -> bytes:
    data = _body(source)[:255]
    return struct.pack("BB", source.choice((0, 1, 8, 255)), len(data)) + data


def _long(source: random.Random) -> bytes:
    size = source.choice(_SIZES)
    return struct.pack(">BQ", source.choice((2, 3, 6)), size) + source.randbytes(50)


def _command(source: random.Random) -> bytes:
    name = source.choice(
        (b"\x04PING\x00\x01", b"\x04PONG", b"\x09SUBSCRIBE", b"\x05ERROR")
    )
    return struct.pack("BB", 4, len(name)) + name


def _few(source: random.Random) -> int:
    return source.choice((1, 1, 2, 3, 20))
