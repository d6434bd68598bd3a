"""Finds the frames of a file that are whole, without holding the file."""

from collections.abc import Iterator
from typing import BinaryIO
from zlib import crc32

from hookline_recording.schema import FRAME, HEADER_BYTES, MARK, MOST_RECORD_BYTES

_MARK = MARK.to_bytes(2, "little")
_READ_BYTES = 1 << 20


def frames(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """Yields (number, position of the body, body) of frames, wherever they are."""
    size = FRAME.size
    base = HEADER_BYTES
    file.seek(base)
    data, at = file.read(_READ_BYTES), 0
    while True:
        if len(data) - at < size and not (more := file.read(_READ_BYTES)):
            return
        if len(data) - at < size:
            data, base, at = data[at:] + more, base + at, 0
            continue
        mark, length, number, checksum = FRAME.unpack_from(data, at)
        begin, end = at + size, at + size + length
        if mark == MARK and length <= MOST_RECORD_BYTES:
            if end > len(data):
                more = file.read(max(_READ_BYTES, end - len(data)))
                data, base, at = data[at:] + more, base + at, 0
                begin, end = size, size + length
            body = data[begin:end]
            if len(body) == length and crc32(body, number & 0xFFFFFFFF) == checksum:
                yield number, base + begin, body
                at = end
                continue
        at = data.find(_MARK, at + 1)
        if at < 0:  # the last byte may be half of a mark
            at = len(data) - 1
