"""After every kind of end gauges are exact and counters add up."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from hookline_testing.server_process import engine_of

PATIENCE_SECONDS = 60.0
"""When waiting is given up; how long it took is nothing that a test asserts."""

COMMAND = (
    *(sys.executable, "-m", "hookline_server", "serve", "--port", "0"),
    *("--max-num-seqs", "4", "--max-num-queued-reqs", "4"),
    *("--heartbeat-seconds", "0.2", "--simulated-step-seconds", "0.005"),
    *("--metrics-dialect", "hookline,vllm,sglang"),
    *("--kernels", "torch"),  # so that requests run until they have been seen
)
ROUTE = {"route": "/v1/completions"}
ASKED = 6
BODY = {"model": "demo", "prompt": "def main(", "ignore_eos": True}
ENDLESS = {**BODY, "max_tokens": 2000, "stream": True}
SHORT = {**BODY, "max_tokens": 20}

AT_REST: Mapping[str, float] = {
    "hookline_requests_running": 0,
    "hookline_requests_waiting": 0,
    "hookline_kv_blocks": 0,
    "hookline_http_requests_in_flight": 0,
    "hookline_engine_up": 1,
    "vllm:num_requests_running": 0,
    "vllm:kv_cache_usage_perc": 0,
    "sglang:token_usage": 0,
}
LABELS = {
    "hookline_kv_blocks": {"state": "used"},
    "hookline_http_requests_in_flight": ROUTE,
}
DEAD = {**AT_REST, "hookline_engine_up": 0}


class Scrape:
    """One page of metrics."""

    def __init__(self, text: str) -> None:
        families = text_string_to_metric_families(text)
        self._samples = [each for family in families for each in family.samples]

    def total(self, name: str, labels: Mapping[str, str] | None = None) -> float:
        """The sum over all series that have these labels."""
        wanted = (labels or {}).items()
        return sum(
            each.value
            for each in self._samples
            if each.name == name and wanted <= each.labels.items()
        )

    @property
    def gauges(self) -> dict[str, float]:
        return {name: self.total(name, LABELS.get(name)) for name in AT_REST}

    @property
    def is_busy(self) -> bool:
        """Four requests run, two wait, and all metrics show them."""
        gauges = self.gauges
        return (
            gauges["hookline_requests_running"] == 4
            and gauges["hookline_requests_waiting"] == ASKED - 4
            and gauges["hookline_http_requests_in_flight"] == ASKED
            and all(gauges.values())
        )

    @property
    def received(self) -> float:
        return self.total("hookline_requests_received_total")

    def finished(self, reason: str | None = None) -> float:
        labels = {} if reason is None else {"reason": reason}
        return self.total("hookline_requests_finished_total", labels)

    @property
    def rejected(self) -> float:
        return self.total("hookline_requests_rejected_total")

    @property
    def open(self) -> float:
        """What has come and has not ended, by the counters."""
        return self.received + self.rejected - self.finished()

    @property
    def residue(self) -> float:
        return self.total("hookline_conservation_residue")


class Client:
    """A client of a serving process."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def scrape(self) -> Scrape:
        async with self._session.get(f"{self._url}/metrics") as response:
            return Scrape(await response.text())

    async def until(self, condition: Callable[[Scrape], object]) -> Scrape:
        """Scrapes until the condition holds."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition(found := await self.scrape()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        return found

    async def until_gauges(self, wanted: Mapping[str, float]) -> Scrape:
        return await self.until(lambda scrape: scrape.gauges == wanted)

    async def ask(self, body: Mapping[str, object]) -> int:
        """Sends a request and reads its answer to the end."""
        url = f"{self._url}/v1/completions"
        async with self._session.post(url, json=body) as response:
            with suppress(aiohttp.ClientPayloadError):
                await response.read()
            return response.status

    @asynccontextmanager
    async def busy(self) -> AsyncIterator[Scrape]:
        """While requests run and wait; at the end their clients leave."""
        asking = [asyncio.create_task(self.ask(ENDLESS)) for _ in range(ASKED)]
        try:
            yield await self.until(lambda scrape: scrape.is_busy)
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)


class Server:
    """A running `hookline serve`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdout is not None
        banner = iter(process.stdout.readline, "")
        found = (re.search(r"API +(http://\S+)/v1", line) for line in banner)
        self.url = next(match.group(1) for match in found if match)

    def kill_engine(self) -> None:
        """Ends the engine's process, which can do nothing about it."""
        os.kill(engine_of(self._process.pid), signal.SIGKILL)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        async with aiohttp.ClientSession() as session:
            yield Client(session, self.url)


@contextmanager
def serving(*options: str) -> Iterator[Server]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        (*COMMAND, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    ) as process:
        try:
            yield Server(process)
        finally:
            process.terminate()


SIMULATED = ("--executor", "simulated")
OBSERVED = pytest.param(
    (*SIMULATED, "--observer-process"), id="observed", marks=pytest.mark.slow
)
"""A server whose loggers are in a process of their own, so that all goes through it."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(SIMULATED, id="simulated"),
        pytest.param(("--executor", "uniproc"), id="uniproc", marks=pytest.mark.slow),
        OBSERVED,
    ],
)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with serving(*request.param) as running:
        yield running


async def test_busy_engine_is_shown(server: Server) -> None:
    """
    Gauges and counters show the running and waiting requests.
    """
    async with server.client() as client:
        await client.until_gauges(AT_REST)
        async with client.busy() as during:
            pass

    assert (during.open, during.residue) == (ASKED, 0)


async def test_gauges_after_all_were_aborted(server: Server) -> None:
    """
    When all clients have left, nothing runs, waits, or holds a block.
    """
    async with server.client() as client:
        before = await client.until_gauges(AT_REST)
        async with client.busy():
            pass
        after = await client.until_gauges(AT_REST)

    assert after.received - before.received == ASKED
    assert after.finished("abort") - before.finished("abort") == ASKED
    assert (after.open, after.residue) == (0, 0)


async def test_gauges_after_all_have_finished(server: Server) -> None:
    """
    When all answers have been given, nothing runs, waits, or holds a block.
    """
    async with server.client() as client:
        before = await client.until_gauges(AT_REST)
        asked = (client.ask(SHORT) for _ in range(ASKED))
        statuses = await asyncio.gather(*asked)
        # Else the page might still be the one from before they came.
        await client.until(lambda now: now.received - before.received == ASKED)
        after = await client.until_gauges(AT_REST)

    assert statuses == [200] * ASKED
    assert after.finished("length") - before.finished("length") == ASKED
    assert (after.open, after.residue) == (0, 0)


@pytest.mark.slow
async def test_gauges_of_an_idle_engine(server: Server) -> None:
    """
    An engine without steps still sends heartbeats, and its gauges stay exact.
    """

    def is_heard_though_idle(scrape: Scrape) -> bool:
        step_age = scrape.total("hookline_last_step_age_seconds")
        return step_age > 1 and scrape.total("hookline_snapshot_age_seconds") < 0.5

    async with server.client() as client:
        await client.ask(SHORT)
        idle = await client.until(is_heard_though_idle)

    assert idle.gauges == AT_REST
    assert (idle.open, idle.residue) == (0, 0)


@pytest.mark.slow
async def test_gauges_after_a_rejection(server: Server) -> None:
    """
    Prompts for which there is no room count as one request, and as no work.
    """
    async with server.client() as client:
        before = await client.until_gauges(AT_REST)
        status = await client.ask({**SHORT, "prompt": ["a"] * 9})
        await client.ask(SHORT)
        await client.until(lambda now: now.received > before.received)
        after = await client.until_gauges(AT_REST)

    assert status == 429
    assert after.rejected - before.rejected == 1
    assert after.finished("rejected") - before.finished("rejected") == 1
    assert after.received - before.received == 1
    assert (after.open, after.residue) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("options", [pytest.param(SIMULATED, id="simulated"), OBSERVED])
async def test_gauges_after_the_engines_death(options: tuple[str, ...]) -> None:
    """
    It runs and holds nothing; what was open ended in error, later requests are refused.
    """
    with serving(*options) as server:
        async with server.client() as client, client.busy():
            server.kill_engine()
            await client.until_gauges(DEAD)
            status = await client.ask(SHORT)
            after = await client.until(lambda now: now.rejected == 1)

    assert status == 503
    assert after.gauges == DEAD
    assert after.finished("error") == ASKED
    assert (after.open, after.residue) == (0, 0)
