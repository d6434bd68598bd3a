"""The ring in shared memory that carries messages from one process to several."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from hookline_ranks.processes.ring import (
    SLOT_BYTES,
    SLOTS,
    RingReader,
    RingWriter,
    make_bell,
    ring_bytes,
)
from hookline_ranks.processes.shared_memory import SharedMemory

READERS = 2
LARGE = os.urandom(SLOTS * SLOT_BYTES * 3 + 1)


class HasEndedError(Exception):
    """What the writer's check raises."""


def check() -> None:
    """Nobody has ended."""


@pytest.fixture
def bells() -> Iterator[list[int]]:
    made = [make_bell() for _ in range(READERS)]

    yield made

    for bell in made:
        os.close(bell)


@pytest.fixture
def memory() -> Iterator[SharedMemory]:
    made = SharedMemory(ring_bytes(READERS))

    yield made

    made.close_descriptor()


@pytest.fixture
def readers(memory: SharedMemory, bells: list[int]) -> list[RingReader]:
    return [
        RingReader(memory, bell, index=index, readers=READERS)
        for index, bell in enumerate(bells)
    ]


@pytest.fixture
def writer(memory: SharedMemory, bells: list[int]) -> RingWriter:
    return RingWriter(memory, bells)


def read_all(reader: RingReader, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        if (message := reader.read(None)) is not None:
            found.append(message)
    return found


def test_every_reader_gets_every_message(
    writer: RingWriter, readers: list[RingReader]
) -> None:
    """In order; also empty ones, and ones that are larger than the ring."""
    sent = [b"first", b"", LARGE, *(bytes([each]) * each for each in range(50))]

    with ThreadPoolExecutor(READERS) as pool:
        found = [pool.submit(read_all, each, len(sent)) for each in readers]
        for message in sent:
            writer.write(message, check)

    assert [each.result() for each in found] == [sent] * READERS


def test_another_process_reads(memory: SharedMemory, bells: list[int]) -> None:
    """It maps the memory by the descriptor that it inherits."""
    own = SharedMemory(ring_bytes(READERS), os.dup(memory.descriptor))
    writer, reader = RingWriter(memory, bells), RingReader(own, bells[0], readers=2)

    writer.write(b"here", check)

    assert read_all(reader, 1) == [b"here"]
    own.close_descriptor()


def test_a_writer_waits_for_the_slowest_reader(
    writer: RingWriter, readers: list[RingReader]
) -> None:
    """While it waits it asks whether that reader is still there."""

    def has_ended() -> None:
        raise HasEndedError

    for _ in range(SLOTS):
        writer.write(b"more", check)
    read_all(readers[0], SLOTS)

    with pytest.raises(HasEndedError):
        writer.write(b"too much", has_ended)
    read_all(readers[1], 1)
    writer.write(b"fits", has_ended)

    assert read_all(readers[1], SLOTS)[-1] == b"fits"


def test_a_reader_can_be_woken(readers: list[RingReader]) -> None:
    """It returns without a message, as it does when its time is over."""
    readers[0].wake()

    assert readers[0].read(None) is None
    assert readers[0].read(0.0) is None
