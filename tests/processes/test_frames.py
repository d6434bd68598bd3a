"""Messages through pipes, sockets and files."""

import os
import threading

import pytest

from hookline_processes.frames import (
    LENGTH,
    MAX_FRAME_BYTES,
    FrameBuffer,
    FrameError,
    frame,
    read_frame,
    split_frames,
    write_frame,
)

MESSAGES = [b"one", b"", b"x" * 1_000_000]
TOO_LARGE = LENGTH.pack(MAX_FRAME_BYTES + 1) + b"x"


def test_messages_keep_their_bounds_in_a_pipe() -> None:
    """Also an empty one, and one that is larger than a pipe; then comes the end."""
    reading, writing = os.pipe()

    def write() -> None:
        for each in MESSAGES:
            write_frame(writing, each)
        os.close(writing)

    writer = threading.Thread(target=write)
    writer.start()
    received = [read_frame(reading) for _ in range(len(MESSAGES) + 1)]
    writer.join()
    os.close(reading)

    assert received == [*MESSAGES, None]


@pytest.mark.parametrize("size", [1, 3, 1 << 16])
def test_messages_keep_their_bounds_in_a_buffer(size: int) -> None:
    """However the bytes are divided on their way."""
    data, buffer = b"".join(map(frame, MESSAGES)), FrameBuffer()
    received = []

    for at in range(0, len(data), size):
        buffer.feed(data[at : at + size])
        while (body := buffer.next()) is not None:
            received.append(body)

    assert received == MESSAGES


def test_messages_keep_their_bounds_in_a_file() -> None:
    """An empty file has none."""
    data = b"".join(map(frame, MESSAGES))

    assert list(split_frames(memoryview(data))) == MESSAGES
    assert list(split_frames(memoryview(b""))) == []


@pytest.mark.parametrize("part", [b"\3\0", frame(b"half a message")[:10]])
def test_an_end_within_a_message_is_an_error(part: bytes) -> None:
    """Neither half a length nor half a body is a message, nor are they the end."""
    reading, writing = os.pipe()
    os.write(writing, part)
    os.close(writing)

    with pytest.raises(FrameError, match="within a message"):
        read_frame(reading)
    with pytest.raises(FrameError, match="within a message"):
        list(split_frames(memoryview(part)))

    os.close(reading)


def test_a_length_beyond_the_limit_is_an_error() -> None:
    """Nothing waits for so much, and no memory is taken for it."""
    reading, writing = os.pipe()
    os.write(writing, TOO_LARGE)
    buffer = FrameBuffer()
    buffer.feed(TOO_LARGE)

    for read in (
        lambda: read_frame(reading),
        buffer.next,
        lambda: list(split_frames(memoryview(TOO_LARGE))),
    ):
        with pytest.raises(FrameError, match="is larger than 268435456 bytes"):
            read()

    os.close(reading)
    os.close(writing)
