"""Messages through pipes."""

import os
import threading

import pytest

from hookline_processes.frames import framed, read_frame, write_all


def test_messages_keep_their_bounds() -> None:
    """Also one that is larger than a pipe, and an empty one at the end."""
    reading, writing = os.pipe()
    sent = [b"one", b"x" * 1_000_000]

    def write() -> None:
        for each in sent:
            write_all(writing, framed(each))
        os.close(writing)

    writer = threading.Thread(target=write)
    writer.start()
    received = [read_frame(reading) for _ in range(3)]
    writer.join()
    os.close(reading)

    assert received == [*sent, b""]


@pytest.mark.parametrize("part", [b"\0\0", framed(b"half a message")[:10]])
def test_a_pipe_that_ends_within_a_message_is_at_its_end(part: bytes) -> None:
    """Neither half a length nor half a body is a message."""
    reading, writing = os.pipe()
    os.write(writing, part)
    os.close(writing)

    assert read_frame(reading) == b""

    os.close(reading)
