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
    """And a little more; then reading the body fails."""
    body = body_with(num_bytes)
    meter = ChunkMeter(body)

    is_early = meter.add(2 * num_bytes + MOST_FRAMING_BYTES)
    is_late = meter.add(1)

    assert (is_early, is_late) == (False, True)
    with pytest.raises(FramingError):
        await body.read()


async def test_a_body_that_has_ended_is_not_measured() -> None:
    """What comes then belongs to the next request."""
    body = body_with()
    meter = ChunkMeter(body)
    body.feed_eof()

    assert not meter.add(2 * MOST_FRAMING_BYTES)
