"""A channel on an event loop."""

import asyncio
import socket
from collections.abc import Iterator

import msgspec
import pytest

from hookline_processes.async_channel import AsyncChannel
from hookline_processes.frames import FrameError, frame

WAIT_SECONDS = 60.0


class Word(msgspec.Struct):
    text: str


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    first, second = socket.socketpair()
    yield first, second
    first.close()
    second.close()


Ends = tuple[socket.socket, socket.socket]


def channel_of(end: socket.socket) -> AsyncChannel[Word]:
    return AsyncChannel(end, msgspec.msgpack.Decoder(Word))


async def test_messages_wait_for_whoever_receives_them(ends: Ends) -> None:
    """Sending does not wait, however much the other end has not received yet."""
    here, there = map(channel_of, ends)
    words = [Word(""), Word("x" * 5_000_000), Word("last")]

    for word in words:
        here.send(word)
    async with asyncio.timeout(WAIT_SECONDS):
        received = [await there.receive() for _ in words]
        here.close()
        received.append(await there.receive())

    assert received == [*words, None]
    there.close()


async def test_messages_to_a_closed_end_are_lost(ends: Ends) -> None:
    """Whether this end is closed or the other; closing twice does nothing."""
    here, there = map(channel_of, ends)

    there.close()
    here.send(Word("unheard"))
    async with asyncio.timeout(WAIT_SECONDS):
        end = await here.receive()
    here.close()
    here.send(Word("unsaid"))
    here.close()

    assert end is None


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"\xff" * 8, FrameError),
        (frame(b"\x01"), msgspec.ValidationError),
        (frame(b""), msgspec.DecodeError),
    ],
)
async def test_what_is_no_message_is_an_error(
    ends: Ends, data: bytes, error: type[ValueError]
) -> None:
    """Of one family, whatever is wrong with it."""
    channel = channel_of(ends[0])
    ends[1].sendall(data)

    with pytest.raises(error) as raised:
        await channel.receive()

    assert isinstance(raised.value, ValueError)
    channel.close()


async def test_a_channel_is_closed_while_a_task_receives(ends: Ends) -> None:
    """The task ends when it is cancelled, and a new channel may have the descriptor."""
    channel = channel_of(ends[0])
    receiving = asyncio.create_task(channel.receive())
    await asyncio.sleep(0)
    number = ends[0].fileno()

    channel.close()
    receiving.cancel()
    first, second = socket.socketpair()
    new, other = channel_of(first), channel_of(second)
    other.send(Word("hello"))
    async with asyncio.timeout(WAIT_SECONDS):
        word = await new.receive()
        await asyncio.wait([receiving])

    assert first.fileno() == number
    assert receiving.cancelled()
    assert word == Word("hello")
    new.close()
    other.close()
