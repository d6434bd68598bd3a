"""Log lines are written in a thread, in order, and dropped if nobody reads."""

import os
from collections.abc import Iterator

import pytest

from hookline_processes.line_writer import LineWriter

MORE_THAN_A_PIPE = b"x" * 200_000


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def make_writer(descriptor: int, max_waiting: int = 100) -> LineWriter[bytes]:
    return LineWriter(
        descriptor,
        lambda line: line + b"\n",
        render_dropped=lambda count: b"%d dropped\n" % count,
        max_waiting=max_waiting,
    )


def test_lines_are_written_in_order(pipe: tuple[int, int]) -> None:
    """Closing waits until all lines are written."""
    writer = make_writer(pipe[1])

    for number in range(50):
        writer.write(b"%d" % number, is_urgent=number == 7)

    assert writer.close(10)
    assert os.read(pipe[0], 65536).split() == [b"%d" % n for n in range(50)]
    assert writer.dropped == 0


def test_nothing_blocks_while_nobody_reads(pipe: tuple[int, int]) -> None:
    """Beyond the pipe and the queue, lines are dropped, counted, and reported later."""
    writer = make_writer(pipe[1], max_waiting=10)
    writer.write(MORE_THAN_A_PIPE)
    assert writer.flush(10)

    for _ in range(15):
        writer.write(b"next")

    assert writer.dropped == 5
    assert not writer.close(0.01)  # it waits for a reader
    data = b""
    while not data.endswith(b"dropped\n"):
        data += os.read(pipe[0], 65536)
    assert data == MORE_THAN_A_PIPE + b"\n" + 10 * b"next\n" + b"5 dropped\n"


def test_a_closed_pipe_drops_everything() -> None:
    """Once the reader has gone, lines are only counted."""
    read, write = os.pipe()
    os.close(read)
    writer = make_writer(write)

    writer.write(b"one")
    assert writer.close(10)
    writer.write(b"two")

    assert writer.dropped == 2
    os.close(write)
