"""What surrounds the data of a chunked body has a limit."""

import asyncio

import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol

from hookline_server.connections.chunk_meter import (
    MOST_FRAMING_BYTES,
    ChunkMeter,
    FramingError,
)


def body_with(num_bytes: int = 0) -> StreamReader:
    """A body of which so much has arrived."""
    loop = asyncio.get_running_loop()
    body = StreamReader(BaseProtocol(loop), 2**16, loop=loop)
    body.total_bytes = num_bytes
    return body


@pytest.mark.parametrize("num_bytes", [0, 1, 10_000_000])
async def test_framing_may_be_as_long_as_the_body(num_bytes: int) -> None:
    """And a little more; then reading the body fails, and nothing more is counted."""
    meter, body = ChunkMeter(), body_with(num_bytes)
    meter.begin(body)

    is_early = meter.add(2 * num_bytes + MOST_FRAMING_BYTES)
    is_late = meter.add(1)

    assert (is_early, is_late) == (False, True)
    with pytest.raises(FramingError):
        await body.read()
    assert not meter.add(MOST_FRAMING_BYTES)


async def test_each_body_is_measured_by_itself() -> None:
    """One that has ended, or has no chunks, is not measured."""
    meter, ended = ChunkMeter(), body_with()
    ended.feed_eof()
    found = []
    for body in (body_with(), None, ended, body_with()):
        meter.begin(body)
        found += [meter.add(MOST_FRAMING_BYTES)]

    meter.begin(ended)
    assert found == [False] * 4
    assert not meter.add(2 * MOST_FRAMING_BYTES)
