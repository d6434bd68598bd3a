"""A prefill and a decode instance on this machine, behind a proxy."""

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from hookline_gateway.upstreams.asking import UPSTREAM_ERRORS, new_session
from hookline_pd_proxy.instance_ended import InstanceEndedError
from hookline_pd_proxy.pools import Role
from hookline_pd_proxy.serving import serve_route
from hookline_pd_proxy.settings import RouteSettings
from hookline_processes.python import python_command, python_environment
from hookline_server.auth.key_ring import KeyRing
from hookline_server.browser_guard import BrowserGuard
from hookline_server.listening import Bound
from hookline_server.loading import create_loading_app
from hookline_server.sites import sites, stop_on_signals

HOST = "127.0.0.1"
SHARED_STORAGE = "shared_storage"
KV_ROLES = {Role.PREFILL: "kv_producer", Role.DECODE: "kv_consumer"}

POLL_SECONDS = 0.1
END_SECONDS = 60.0
"""Time for instances to drain before they are killed."""

MOST_LINE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """Settings of the two instances.

    Attributes:
        connector: Name of the KV connector between the two.
        arguments: Additional arguments of both `hookline serve`.
        ports: Port of each instance, on the loopback interface.
    """

    connector: str
    arguments: Sequence[str]
    ports: dict[Role, int]

    def url(self, role: Role) -> str:
        """Returns the URL of an instance."""
        return f"http://{HOST}:{self.ports[role]}"

    def command(self, role: Role, folder: Path) -> list[str]:
        """Returns the command line of an instance.

        Args:
            role: Role of the instance.
            folder: Folder of the files that the connector stores.
        """
        transfer: dict[str, object] = {
            "kv_connector": self.connector,
            "kv_role": KV_ROLES[role],
        }
        if self.connector == SHARED_STORAGE:
            transfer["kv_connector_extra_config"] = {"shared_storage_path": str(folder)}
        command = python_command("-m", "hookline_server", "serve", *self.arguments)
        command += ["--host", HOST, "--port", str(self.ports[role])]
        return [*command, "--kv-transfer-config", json.dumps(transfer)]


class Child:
    """A running instance; its output is printed with its name in front."""

    def __init__(self, role: Role, process: asyncio.subprocess.Process) -> None:
        self.role = role
        self.process = process
        self._last_line = "no output"
        self._echoing = asyncio.create_task(self._echo())

    @classmethod
    async def start(cls, role: Role, command: Sequence[str]) -> "Child":
        """Starts it in a new session, out of reach of a terminal's signals."""
        process = await asyncio.create_subprocess_exec(
            *command,
            env=python_environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            limit=MOST_LINE_BYTES,
        )
        return cls(role, process)

    async def ended(self) -> str:
        """Waits for its end; returns the reason, with its last line."""
        status = await self.process.wait()
        await self._echoing
        return f"the {self.role} instance ended with status {status}: {self._last_line}"

    async def end(self) -> None:
        """Terminates it, and kills it if it does not end in time."""
        try:
            with suppress(ProcessLookupError):
                self.process.terminate()
            async with asyncio.timeout(END_SECONDS):
                await self.ended()
        except TimeoutError:
            self.kill()
            await self.ended()

    def kill(self) -> None:
        """Kills it."""
        with suppress(ProcessLookupError):
            self.process.kill()

    async def _echo(self) -> None:
        assert self.process.stdout is not None
        with suppress(ValueError):  # a line that is too long
            async for line in self.process.stdout:
                text = line.decode("utf-8", "replace").rstrip()
                sys.stderr.write(f"{self.role:>7} | {text}\n")
                self._last_line = text.removeprefix("hookline: error: ")


class Demo:
    """Both instances and the proxy, which end together."""

    def __init__(self, settings: DemoSettings) -> None:
        self._settings = settings
        self._children: list[Child] = []
        self._reason: str | None = None

    async def run(
        self,
        listening: Bound,
        settings: RouteSettings,
        when_ready: Callable[[], None],
    ) -> None:
        """Runs until a signal comes or an instance ends.

        Raises:
            InstanceEndedError: An instance ended.
        """
        self._stopping = stop_on_signals(self._kill)
        with tempfile.TemporaryDirectory(prefix="hookline-demo-") as folder:
            watching: list[asyncio.Task[None]] = []
            try:
                for role in Role:
                    command = self._settings.command(role, Path(folder))
                    self._children.append(await Child.start(role, command))
                watching = [asyncio.create_task(self._watch(c)) for c in self._children]
                guard = BrowserGuard((settings.host,), settings.pages)
                app = create_loading_app(KeyRing(), guard)
                async with sites([(app, listening.copied())]):
                    await self._wait_until_ready()
                if not self._stopping.is_set():
                    await serve_route(listening, settings, self._stopping, when_ready)
            finally:
                for task in watching:
                    task.cancel()
                await asyncio.gather(*(child.end() for child in self._children))
        if self._reason is not None:
            raise InstanceEndedError(self._reason)

    def _kill(self) -> None:
        for child in self._children:
            child.kill()

    async def _watch(self, child: Child) -> None:
        reason = await child.ended()
        self._reason = self._reason or reason
        self._stopping.set()

    async def _wait_until_ready(self) -> None:
        """Waits until both instances are ready, or until the end."""
        missing = list(Role)
        async with new_session(POLL_SECONDS) as session:
            while missing and not self._stopping.is_set():
                url = self._settings.url(missing[0])
                if await _is_ready(session, url):
                    missing.pop(0)
                else:
                    await asyncio.sleep(POLL_SECONDS)


async def _is_ready(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(f"{url}/health/ready") as response:
            return response.status == 200
    except UPSTREAM_ERRORS:
        return False
