"""Finds frames that are whole: at a place, or all of a file, without holding it."""

from collections.abc import Iterator
from mmap import mmap
from typing import BinaryIO
from zlib import crc32

from hookline_recording.schema import FRAME, HEADER_BYTES, MARK, MOST_RECORD_BYTES

MARK_BYTES = MARK.to_bytes(2, "little")
_READ_BYTES = 1 << 20


def frame_at(data: bytes | mmap, at: int) -> tuple[int, bytes] | int:
    """Returns number and body of a frame; or how much of it is beyond the data's end.

    That is 0 if no frame begins there, or if what is there is damaged.
    """
    begin = at + FRAME.size
    if begin > len(data):
        return begin - len(data)
    number: int
    mark, length, number, checksum = FRAME.unpack_from(data, at)
    if mark != MARK or length > MOST_RECORD_BYTES:
        return 0
    body: bytes = data[begin : begin + length]
    if len(body) < length:
        return int(length) - len(body)
    if crc32(body, number & 0xFFFFFFFF) != checksum:
        return 0
    return number, body


def frames(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """Yields (number, position of the body, body) of frames, wherever they are."""
    base = HEADER_BYTES
    file.seek(base)
    data, at = file.read(_READ_BYTES), 0
    while True:
        found = frame_at(data, at)
        if isinstance(found, tuple):
            number, body = found
            yield number, base + at + FRAME.size, body
            at += FRAME.size + len(body)
            continue
        if found and (more := file.read(max(_READ_BYTES, found))):
            data, base, at = data[at:] + more, base + at, 0
            continue
        if len(data) - at < FRAME.size:
            return
        at = data.find(MARK_BYTES, at + 1)
        if at < 0:  # the last byte may be half of a mark
            at = len(data) - 1
