"""Prefill and decode instances behind a proxy, each in its process, for tests."""

import asyncio
import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from hookline_faults.spoilt_line import SpoiltLine, Weather
from hookline_gateway.upstreams.asking import UPSTREAM_ERRORS
from hookline_pd_proxy.demo import HOST, Child
from hookline_pd_proxy.pools import Role
from hookline_processes.python import python_command
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
_TRANSFERRED_TOKENS = "hookline_transferred_tokens_total"
LOADED = "tokens loaded"

_FAILURES = "hookline_kv_transfer_failures_total"
_COUNTED = {
    _HIT_TOKENS: LOADED,
    _TRANSFERRED_TOKENS: LOADED,
    "hookline_kv_transfer_late_reports_total": "late reports",
    "hookline_preemptions_total": "preemptions",
}


def free_port(host: str = HOST) -> int:
    """Returns a free port; another process can still take it."""
    with listen(host, 0) as free:
        port: int = free.getsockname()[1]
        return port


@dataclass(slots=True)
class State:
    """The state of an instance, read from its page of metrics.

    Attributes:
        busy: Number of open requests and transfers, by metric name.
        held_blocks: Number of blocks held by requests or transfers.
        residue: Sum of the absolute residues of the conservation laws.
        counted: Counts since the start: failures of the KV connector by stage and
            reason, tokens loaded by it, late reports, and preemptions.
    """

    busy: dict[str, float] = field(default_factory=dict)
    held_blocks: float = 0.0
    residue: float = 0.0
    counted: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, samples: Sequence[PageSample]) -> "State":
        """Reads the state from a page's samples."""
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
                what = _COUNTED[name]
                state.counted[what] = state.counted.get(what, 0) + value
        return state

    @property
    def leaked_blocks(self) -> float:
        """Number of leaked blocks, if the instance is idle."""
        return self.residue + self.held_blocks


class Server:
    """`hookline serve` or `hookline route`, which can be killed and restarted.

    Attributes:
        url: URL of the server; it stays the same after a restart.
        is_up: Whether the server has become ready and was not killed since.
    """

    def __init__(self, role: Role, command: str, arguments: Sequence[str]) -> None:
        port = free_port()
        self.role = role
        self.url = f"http://{HOST}:{port}"
        self.is_up = False
        self._command = python_command("-m", "hookline_server", command, *arguments)
        self._command += ["--host", HOST, "--port", str(port)]
        self._counted_before: dict[str, float] = {}

    async def start(self, session: aiohttp.ClientSession) -> None:
        """Starts the process and waits until it is ready.

        Raises:
            TimeoutError: The process is not ready after two minutes.
        """
        self._child = await Child.start(self.role, self._command)
        async with asyncio.timeout(START_SECONDS):
            while not await self._is_ready(session):  # noqa: ASYNC110 - of a process
                await asyncio.sleep(LOOK_SECONDS)
        self.is_up = True

    async def kill(self) -> None:
        """Kills the server and all its processes, as `kill -9` does."""
        self.is_up = False
        self._counted_before = {}
        os.killpg(self._child.process.pid, signal.SIGKILL)
        await self._child.ended()

    async def end(self) -> None:
        """Terminates the server with SIGTERM."""
        self.is_up = False
        await self._child.end()

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Makes all writes to files fail within the block, as on a full disk."""
        _limit_files(self._pids(), 0)
        try:
            yield
        finally:
            _limit_files(self._pids(), resource.RLIM_INFINITY)

    async def state(self, session: aiohttp.ClientSession) -> State:
        """Returns the current state; numbers are up to a step or a heartbeat old."""
        async with session.get(f"{self.url}/metrics") as response:
            return State.of(read_page(await response.text(), self.url).samples)

    async def rest(self, session: aiohttp.ClientSession, seconds: float) -> State:
        """Waits until the server is idle or the time is up; returns its state."""
        deadline = time.monotonic() + seconds
        while True:
            state = await self.state(session)
            is_at_rest = not state.busy and not state.held_blocks
            if is_at_rest or time.monotonic() > deadline:
                return state
            await asyncio.sleep(LOOK_SECONDS)

    def news(self, state: State) -> dict[str, float]:
        """Returns what was counted since the last call, or since the start."""
        found = {
            name: count - self._counted_before.get(name, 0)
            for name, count in state.counted.items()
        }
        self._counted_before = dict(state.counted)
        return {name: count for name, count in found.items() if count}

    def _pids(self) -> list[int]:
        """Returns the ids of the process and its children."""
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
    """The running servers, and the faults that can be injected.

    Attributes:
        lines: Lines in front of the prefill instances' KV ports.
        decode_killed_at: Times at which a decode instance was killed.
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
        """Returns the lock that limits its target to one fault at a time."""
        return self.locks.setdefault(id(what), asyncio.Lock())

    async def weather(self, weather: Weather, least: float, most: float) -> None:
        """Changes the weather of a random line for some seconds."""
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
        """Slows all lines down for some seconds."""
        async with AsyncExitStack() as stack:
            for line in self.lines:
                await stack.enter_async_context(self.lock(line))
                line.weather = Weather.SLOW
            await asyncio.sleep(self.source.uniform(least, most))
            for line in self.lines:
                line.weather = Weather.FAIR

    async def switch(self, name: str, least: float, most: float) -> None:
        """Creates a file of this name in the shared folder for some seconds."""
        (self.folder / name).touch()
        await asyncio.sleep(self.source.uniform(least, most))
        (self.folder / name).unlink()

    async def kill(self, servers: Sequence[Server]) -> None:
        """Kills a random server amid slowed transfers, and restarts it."""
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
        """Returns whether the proxy considers the server up."""
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
        """Changes 5 % of the stored files, and clears the instances' caches."""
        paths = sorted(self.folder.glob("own/*/*/*.safetensors"))
        for path in self.source.sample(paths, -(-len(paths) // 20)):
            with suppress(FileNotFoundError):
                change(path)
        await self.forget(self.instances)

    async def clean(self) -> None:
        """Removes all stored files, and clears the instances' caches."""
        for path in self.folder.glob("own/*/*/*.safetensors"):
            path.unlink(missing_ok=True)
        await self.forget(self.instances)

    async def forget(self, servers: Sequence[Server]) -> None:
        """Clears the prefix caches of the servers that are up."""
        for each in servers:
            if each.is_up:
                with suppress(aiohttp.ClientError):
                    url = f"{each.url}/reset_prefix_cache"
                    async with self.session.post(url) as response:
                        assert response.status == 200

    async def fill_disk(self) -> None:
        """Makes a random prefill instance's writes fail for some seconds."""
        server = self.source.choice(self.prefill)
        async with self.lock(server):
            await self.clean()
            with server.full_disk():
                await asyncio.sleep(self.source.uniform(2.0, 3.0))


def _limit_files(pids: Sequence[int], most_bytes: int) -> None:
    for pid in pids:
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most_bytes, hard))
