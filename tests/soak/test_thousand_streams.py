"""A thousand streams at once are served or shed, and nothing is left of them."""

import asyncio
from collections import Counter

import aiohttp
import pytest

from hookline_faults.fuzzing.aftermath import aftermath
from hookline_testing.server_process import Server, serving

NUM_STREAMS = 1000
BODY = {
    "model": "demo",
    "prompt": [5, 6, 7],
    "max_tokens": 32,
    "ignore_eos": True,
    "stream": True,
}
SERVE = [
    *("--model", "demo", "--executor", "simulated", "--port", "0"),
    *("--log-level", "warning"),
]


async def outcome(session: aiohttp.ClientSession, url: str) -> str:
    async with session.post(url, json=BODY) as response:
        data = await response.read()
        if response.status == 200:
            is_whole = data.rstrip().endswith(b"data: [DONE]")
            return "served" if is_whole and b'"error"' not in data else "broke off"
        retry = "with" if "Retry-After" in response.headers else "without"
        return f"{response.status} {retry} Retry-After"


async def outcomes(server: Server) -> Counter[str]:
    timeout = aiohttp.ClientTimeout(total=240)
    connector = aiohttp.TCPConnector(limit=0)
    url = f"http://127.0.0.1:{server.port}/v1/completions"
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        asked = (outcome(session, url) for _ in range(NUM_STREAMS))
        return Counter(await asyncio.gather(*asked))


@pytest.mark.slow
@pytest.mark.parametrize("queue", [8192, 200])
def test_a_thousand_streams_are_served_or_shed(queue: int) -> None:
    """
    Each stream is whole, or refused with 429 and the time to wait; nothing is left.
    """
    with serving(*SERVE, "--max-num-queued-reqs", str(queue)) as server:
        found = asyncio.run(outcomes(server))
        after = aftermath(server)

    served, shed = found["served"], found["429 with Retry-After"]
    assert served + shed == NUM_STREAMS, found
    assert served == NUM_STREAMS if queue > NUM_STREAMS else served > 200
    assert (after.leaked, after.faults) == ({}, [])
