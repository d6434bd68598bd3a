"""Whatever clients send, metrics have as many series as before, and memory stays."""

import asyncio
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

REQUESTS = 10_000
WARM_UP = 2_000
AT_ONCE = 32
ROUNDS = 8
ALLOWED_BYTES = 8 * 2**20
"""A leak of a kilobyte a request would show."""

COMMAND = (
    *(sys.executable, "-m", "hookline_server", "serve", "--port", "0"),
    *("--executor", "simulated", "--simulated-step-seconds", "0.0005"),
    *("--tenant-header", "X-Tenant", "--max-tenants", "5"),
    *("--slo", "ttft=0.1,e2e=1", "--metrics-dialect", "hookline,vllm,sglang"),
)


def random_request(source: random.Random) -> tuple[str, str, dict[str, object]]:
    """A method, a path and what else is sent; half of them are nonsense."""
    word = f"{source.getrandbits(64):016x}"
    headers = {
        "X-Request-Id": f"id-{word}",
        "X-Tenant": f"tenant-{word}",
        "traceparent": f"00-{word}{word}-{word}-01",
    }
    body = {"model": "demo", "prompt": [5, 6, 7], "max_tokens": 2}
    kind = source.randrange(10)
    if kind < 5:
        return "POST", "/v1/completions", {"json": body, "headers": headers}
    if kind == 5:
        other = {**body, "model": f"model-{word}"}
        return "POST", "/v1/completions", {"json": other, "headers": headers}
    if kind == 6:
        return "GET", f"/v1/models/{word}", {"headers": headers}
    if kind == 7:
        return "POST", "/v1/completions", {"data": word.encode(), "headers": headers}
    if kind == 8:
        return f"M{word[:6].upper()}", f"/{word}", {"headers": headers}
    return "GET", f"/{word}/{word}?{word}={word}", {"headers": headers}


class Client:
    """A client of a serving process."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def send(self, count: int, source: random.Random) -> None:
        """Sends this many requests, some at a time."""
        left = iter(range(count))

        async def worker() -> None:
            for _ in left:
                method, path, more = random_request(source)
                async with self.session.request(
                    method,
                    self.url + path,
                    **more,  # type: ignore[arg-type]
                ) as response:
                    await response.read()

        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))

    async def series(self) -> set[str]:
        """Names and labels on the page of metrics."""
        async with self.session.get(f"{self.url}/metrics") as response:
            text = await response.text()
        lines = (line for line in text.splitlines() if not line.startswith("#"))
        return {line.rsplit(" ", 1)[0] for line in lines}


def resident_bytes(pid: int) -> int:
    """Memory that is the process's own."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


@contextmanager
def serving(log: Path) -> Iterator[tuple[int, str]]:
    """The process id and the URL of a server that is ready."""
    with (
        log.open("w") as errors,
        subprocess.Popen(
            COMMAND, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        url = next(line.split()[1] for line in lines if " API " in line)
        next(line for line in lines if "curl" in line)
        try:
            yield process.pid, url.removesuffix("/v1")
        finally:
            process.terminate()


async def drive(pid: int, url: str) -> tuple[set[str], set[str], list[int]]:
    """Series after the warm-up and in the end, and memory in between."""
    source = random.Random(7)  # noqa: S311 - the same requests each time
    async with aiohttp.ClientSession() as session:
        client = Client(session, url)
        await client.series()  # the page's own route is among the routes from now on
        await client.send(WARM_UP, source)
        before, sizes = await client.series(), [resident_bytes(pid)]
        for _ in range(ROUNDS):
            await client.send(REQUESTS // ROUNDS, source)
            sizes.append(resident_bytes(pid))
        return before, await client.series(), sizes


@pytest.mark.soak
def test_nothing_that_clients_choose_makes_series_or_memory(tmp_path: Path) -> None:
    """Ten thousand requests with random ids, tenants, models, methods and paths."""
    with serving(tmp_path / "log") as (pid, url):
        before, after, sizes = asyncio.run(drive(pid, url))

    slope = (sizes[-1] - sizes[0]) / REQUESTS
    found = {"series": len(after), "bytes_a_request": slope, "rss": sizes}
    sys.stdout.write(json.dumps(found) + "\n")
    assert before == after
    assert sizes[-1] - sizes[0] < ALLOWED_BYTES, sizes
