"""Mutates bytes: flips, cuts, repeats and inserts what parsers stumble over."""

import itertools
import random
from collections.abc import Callable, Sequence

INTERESTING = (
    b"\x00",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x00\x00\x00\x80",
    b"\x7f\xff\xff\xff",
    b"\r",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\xc0\x80",  # an overlong NUL
    b"\xed\xa0\x80",  # a surrogate in UTF-8
    b"\xf4\x90\x80\x80",  # beyond Unicode
    b"\xef\xbb\xbf",
    b"\\ud800",
    b"\\u0000",
    b'"',
    b"'",
    b"{" * 40,
    b"[" * 40,
    b"]" * 3,
    b"}" * 3,
    b",",
    b":",
    b"-",
    b"0" * 20,
    b"9" * 40,
    b"1e999",
    b"NaN",
    b"Infinity",
    b"null",
    b"true",
    b"%00",
    b"%s%n",
    b"../",
    b"{{7*7}}",
    b"\x1b[31m",
)
MOST_BYTES = 1 << 20
"""A mutation does not grow data beyond this."""


def mutated(
    data: bytes,
    source: random.Random,
    *,
    most_changes: int = 4,
    interesting: Sequence[bytes] = INTERESTING,
) -> bytes:
    """Returns the data with one to `most_changes` changes."""
    changed = bytearray(data)
    for _ in range(source.randint(1, most_changes)):
        source.choice(_CHANGES)(changed, source, interesting)
    return bytes(changed)


def pieces_of(data: bytes, source: random.Random, most: int) -> tuple[bytes, ...]:
    """Splits data into one to `most` pieces."""
    if len(data) < 2:
        return (data,)
    cuts = {source.randrange(1, len(data)) for _ in range(source.randint(0, most - 1))}
    places = [0, *sorted(cuts), len(data)]
    return tuple(data[begin:end] for begin, end in itertools.pairwise(places))


_Change = Callable[[bytearray, random.Random, Sequence[bytes]], None]


def _flip_bit(data: bytearray, source: random.Random, _: Sequence[bytes]) -> None:
    if data:
        data[source.randrange(len(data))] ^= 1 << source.randrange(8)


def _set_byte(data: bytearray, source: random.Random, _: Sequence[bytes]) -> None:
    if data:
        data[source.randrange(len(data))] = source.randrange(256)


def _insert(
    data: bytearray, source: random.Random, interesting: Sequence[bytes]
) -> None:
    place = source.randint(0, len(data))
    data[place:place] = source.choice(interesting)


def _overwrite(
    data: bytearray, source: random.Random, interesting: Sequence[bytes]
) -> None:
    chosen = source.choice(interesting)
    place = source.randint(0, len(data))
    data[place : place + len(chosen)] = chosen


def _delete(data: bytearray, source: random.Random, _: Sequence[bytes]) -> None:
    begin, end = _span(data, source)
    del data[begin:end]


def _repeat(data: bytearray, source: random.Random, _: Sequence[bytes]) -> None:
    begin, end = _span(data, source)
    piece = bytes(data[begin:end]) * source.choice((1, 2, 8, 64))
    if len(data) + len(piece) <= MOST_BYTES:
        data[end:end] = piece


def _move(data: bytearray, source: random.Random, _: Sequence[bytes]) -> None:
    begin, end = _span(data, source)
    piece = bytes(data[begin:end])
    del data[begin:end]
    place = source.randint(0, len(data))
    data[place:place] = piece


def _truncate(data: bytearray, source: random.Random, _: Sequence[bytes]) -> None:
    del data[source.randint(0, len(data)) :]


def _span(data: bytearray, source: random.Random) -> tuple[int, int]:
    begin = source.randint(0, len(data))
    return begin, min(len(data), begin + source.choice((1, 2, 4, 16, 64, 256)))


_CHANGES: Sequence[_Change] = (
    _flip_bit,
    _set_byte,
    _insert,
    _overwrite,
    _delete,
    _repeat,
    _move,
    _truncate,
)
