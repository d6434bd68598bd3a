"""Prefill and decode instances and a route before them, each a process, for tests."""

import asyncio
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from hookline_faults.spoilt_line import SpoiltLine, Weather
from hookline_pd_proxy.demo import HOST, Child
from hookline_pd_proxy.instance import Role
from hookline_pd_proxy.upstream import UPSTREAM_ERRORS
from hookline_server.cli.metrics_tools.page import PageSample, read_page
from hookline_server.listening import listen

START_SECONDS = 120.0
LOOK_SECONDS = 0.1

_AT_REST = (
    "hookline_requests_running",
    "hookline_requests_waiting",
    "hookline_kv_transfer_in_flight",
    "hookline_kv_transfer_closing",
)
_HIT_TOKENS = "hookline_external_cache_hit_tokens_total"
LOADED = "tokens loaded"

_FAILURES = "hookline_kv_transfer_failures_total"
_COUNTED = {
    _HIT_TOKENS: LOADED,
    "hookline_kv_transfer_late_reports_total": "late reports",
    "hookline_preemptions_total": "preemptions",
}


def free_port(host: str = HOST) -> int:
    """One that nobody listens on; somebody else may take it, too."""
    with listen(host, 0) as free:
        port: int = free.getsockname()[1]
        return port


@dataclass(slots=True)
class State:
    """What an instance's page of metrics says.

    Attributes:
        busy: Requests and transfers that have not ended, by their metric's name.
        held_blocks: Blocks that requests or transfers hold.
        residue: What the conservation laws leave over, of all kinds.
        counted: Since its start: failures of the KV connector, by stage and reason,
            tokens that it loaded, late reports, and preemptions.
    """

    busy: dict[str, float] = field(default_factory=dict)
    held_blocks: float = 0.0
    residue: float = 0.0
    counted: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, samples: Sequence[PageSample]) -> "State":
        """Of a page."""
        state = cls()
        for sample in samples:
            name, labels, value = sample.name, sample.labels, sample.value
            if name in _AT_REST and value:
                state.busy[name] = state.busy.get(name, 0) + value
            elif name == "hookline_kv_transfer_held_blocks" or (
                name == "hookline_kv_blocks" and labels["state"] == "used"
            ):
                state.held_blocks = max(state.held_blocks, value)
            elif name == "hookline_conservation_residue":
                state.residue += abs(value)
            elif name == _FAILURES and value:
                state.counted[f"{labels['stage']} {labels['reason']}"] = value
            elif name in _COUNTED and value:
                state.counted[_COUNTED[name]] = value
        return state

    @property
    def leaked_blocks(self) -> float:
        """Of an instance that should be at rest."""
        return self.residue + self.held_blocks


class Server:
    """`hookline serve` or `hookline route`, which can be killed and started anew.

    Attributes:
        url: Of it, the same for all its lives.
        is_up: Whether it was ready, and has not been killed since.
    """

    def __init__(self, role: Role, command: str, arguments: Sequence[str]) -> None:
        port = free_port()
        self.role = role
        self.url = f"http://{HOST}:{port}"
        self.is_up = False
        self._command = [sys.executable, "-m", "hookline_server", command, *arguments]
        self._command += ["--host", HOST, "--port", str(port)]
        self._told: dict[str, float] = {}

    async def start(self, session: aiohttp.ClientSession) -> None:
        """Until it is ready.

        Raises:
            TimeoutError: It is not after two minutes.
        """
        self._child = await Child.start(self.role, self._command)
        async with asyncio.timeout(START_SECONDS):
            while not await self._is_ready(session):  # noqa: ASYNC110 - of a process
                await asyncio.sleep(LOOK_SECONDS)
        self.is_up = True

    async def kill(self) -> None:
        """As `kill -9` does, of all its processes."""
        self.is_up = False
        self._told = {}
        os.killpg(self._child.process.pid, signal.SIGKILL)
        await self._child.ended()

    async def end(self) -> None:
        """Ends it as SIGTERM does."""
        self.is_up = False
        await self._child.end()

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """It can write to no file, as if the disk were full."""
        _limit_files(self._pids(), 0)
        try:
            yield
        finally:
            _limit_files(self._pids(), resource.RLIM_INFINITY)

    async def state(self, session: aiohttp.ClientSession) -> State:
        """As it is now; numbers are a step or a heartbeat old."""
        async with session.get(f"{self.url}/metrics") as response:
            return State.of(read_page(await response.text(), self.url).samples)

    async def rest(self, session: aiohttp.ClientSession, seconds: float) -> State:
        """Its state once nothing is under way, or after so long."""
        deadline = time.monotonic() + seconds
        while True:
            state = await self.state(session)
            is_at_rest = not state.busy and not state.held_blocks
            if is_at_rest or time.monotonic() > deadline:
                return state
            await asyncio.sleep(LOOK_SECONDS)

    def news(self, state: State) -> dict[str, float]:
        """What was counted since it was last asked, or started."""
        found = {
            name: count - self._told.get(name, 0)
            for name, count in state.counted.items()
        }
        self._told = dict(state.counted)
        return {name: count for name, count in found.items() if count}

    def _pids(self) -> list[int]:
        """Its process, and those that it has started."""
        pid = self._child.process.pid
        lists = Path(f"/proc/{pid}/task").glob("*/children")
        return [pid, *(int(each) for one in lists for each in one.read_text().split())]

    async def _is_ready(self, session: aiohttp.ClientSession) -> bool:
        try:
            async with session.get(f"{self.url}/health") as response:
                return response.status == 200
        except UPSTREAM_ERRORS:
            return False


@dataclass(slots=True)
class Fleet:
    """What runs.

    Attributes:
        lines: Before the prefill instances' ports for KV.
        decode_killed_at: When, each time.
    """

    session: aiohttp.ClientSession
    prefill: list[Server]
    decode: list[Server]
    route: Server
    lines: list[SpoiltLine]
    folder: Path
    source: random.Random
    decode_killed_at: list[float] = field(default_factory=list)
    locks: dict[int, asyncio.Lock] = field(default_factory=dict)

    @property
    def instances(self) -> list[Server]:
        return [*self.prefill, *self.decode]

    def lock(self, what: object) -> asyncio.Lock:
        """One fault at a time happens to it."""
        return self.locks.setdefault(id(what), asyncio.Lock())

    async def weather(self, weather: Weather, least: float, most: float) -> None:
        """Of one line, for a while."""
        line = self.source.choice(self.lines)
        async with self.lock(line):
            line.weather = weather
            if weather is Weather.CUT:
                line.cut()
            await asyncio.sleep(self.source.uniform(least, most))
            line.weather = Weather.FAIR
            if weather is Weather.LOST:
                line.cut()

    async def slow_lines(self, least: float, most: float) -> None:
        """All of them, for a while."""
        async with AsyncExitStack() as stack:
            for line in self.lines:
                await stack.enter_async_context(self.lock(line))
                line.weather = Weather.SLOW
            await asyncio.sleep(self.source.uniform(least, most))
            for line in self.lines:
                line.weather = Weather.FAIR

    async def switch(self, name: str, least: float, most: float) -> None:
        """Has instances see a file of this name for a while."""
        (self.folder / name).touch()
        await asyncio.sleep(self.source.uniform(least, most))
        (self.folder / name).unlink()

    async def kill(self, servers: Sequence[Server]) -> None:
        """Kills one amid transfers, which are slow for that, and starts it anew."""
        server = self.source.choice(servers)
        async with self.lock(server):
            for line in self.lines:
                line.weather = Weather.SLOW
            await asyncio.sleep(0.3)
            if server in self.decode:
                self.decode_killed_at.append(time.monotonic())
            await server.kill()
            for line in self.lines:
                line.weather = Weather.FAIR
            await server.start(self.session)
            while not await self._is_used(server):  # noqa: ASYNC110 - of a process
                await asyncio.sleep(LOOK_SECONDS)

    async def _is_used(self, server: Server) -> bool:
        """Whether the route knows that it is up."""
        host = server.url.removeprefix("http://")
        async with self.session.get(f"{self.route.url}/metrics") as response:
            page = await response.text()
        return any(
            sample.name == "hookline_route_instance_up"
            and sample.labels["instance"] == host
            and sample.value == 1
            for sample in read_page(page, self.route.url).samples
        )

    async def damage(self, change: Callable[[Path], None]) -> None:
        """Changes a twentieth of the files; instances forget what is in memory."""
        paths = sorted(self.folder.glob("own/*/*/*.safetensors"))
        for path in self.source.sample(paths, -(-len(paths) // 20)):
            with suppress(FileNotFoundError):
                change(path)
        await self.forget(self.instances)

    async def clean(self) -> None:
        """Nothing that was stored, damaged or not, is left."""
        for path in self.folder.glob("own/*/*/*.safetensors"):
            path.unlink(missing_ok=True)
        await self.forget(self.instances)

    async def forget(self, servers: Sequence[Server]) -> None:
        """What they have in memory, those that are there."""
        for each in servers:
            if each.is_up:
                with suppress(aiohttp.ClientError):
                    url = f"{each.url}/reset_prefix_cache"
                    async with self.session.post(url) as response:
                        assert response.status == 200

    async def fill_disk(self) -> None:
        """Of one prefill instance, for a while."""
        server = self.source.choice(self.prefill)
        async with self.lock(server):
            await self.clean()
            with server.full_disk():
                await asyncio.sleep(self.source.uniform(2.0, 3.0))


def _limit_files(pids: Sequence[int], most_bytes: int) -> None:
    for pid in pids:
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most_bytes, hard))
