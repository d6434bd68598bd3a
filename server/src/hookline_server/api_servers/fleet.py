"""All API servers of a parent: starts them, replaces those that end, drains them."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from hookline.config import EngineConfig
from hookline.request_ids import MAX_CLIENTS
from hookline_processes.async_channel import AsyncChannel
from hookline_processes.restarts import RestartBudget
from hookline_registry import Failure, FailureLog, isolate
from hookline_server.api_servers.divided_limits import engine_share, server_share
from hookline_server.api_servers.messages import (
    Begin,
    ObserverEndpoint,
    Prepared,
    Serving,
    ToParent,
    Welcome,
)
from hookline_server.api_servers.process import ApiServerProcess
from hookline_server.api_servers.questions import Ask
from hookline_server.api_servers.shared_state import SharedState
from hookline_server.api_servers.shares import Shares
from hookline_server.background import in_background
from hookline_server.engine_sharing import AttachInfo
from hookline_server.listening import Bound, Listening
from hookline_server.settings import ServerSettings

HUNG_SECONDS = 30.0
"""Time without a turn of its event loop after which an API server is killed."""

_LOOK_SECONDS = 0.25
_MOST_RESTARTS = 500
"""Maximum per hour with the usual pauses; later ones wait longer."""
_LONG_PAUSE_SECONDS = 500.0
_END_SECONDS = 4.0
"""Time after the drain for an API server to end by itself."""

logger = logging.getLogger(__name__)


class ApiServerEndedError(Exception):
    """An API server has ended before it could serve for the first time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """What the fleet needs of the owner of the engines.

    Attributes:
        config: Their configuration, as they were started.
        invite: Lets a process attach as the client of an index.
        force_detach: Ends the requests of a client that has ended.
        overrun: Returns the clients that were too slow and get nothing any more.
        observer: The loggers; None if there are none.
    """

    config: EngineConfig
    invite: Callable[[int], AttachInfo]
    force_detach: Callable[[int], None]
    overrun: Callable[[], frozenset[int]]
    observer: ObserverEndpoint | None


class _Place:
    """One place in the fleet, and the process that has it now."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = f"API server {number}"
        self.client_index = 0
        self.process: ApiServerProcess | None = None
        self.spare: ApiServerProcess | None = None
        self.prepared = asyncio.Event()
        self.serving = asyncio.Event()
        self.silent_seconds = 0.0
        self.last_beat = 0
        self.kill_reason: str | None = None


class Fleet:
    """The API servers; for one event loop.

    Attributes:
        banner: What a server that accepts connections wants to be shown.
    """

    def __init__(
        self,
        settings: ServerSettings,
        listening: Listening,
        began: float,
    ) -> None:
        """Starts the processes, which import what they need meanwhile.

        Args:
            settings: The settings of the whole server.
            listening: Its sockets.
            began: When the command began, on the machine's monotonic clock in seconds.
        """
        self._settings = server_share(settings)
        self._listening = listening
        self._began = began
        self._size = settings.api_server_count
        self._descriptor = Shares.make(self._size)
        self._shares = Shares(self._descriptor, self._size)
        self._places = [_Place(number) for number in range(self._size)]
        self.banner = ""
        self._last_client = 0
        self._may_begin = asyncio.Event()
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        for place in self._places:
            place.spare = ApiServerProcess(place.number, self._descriptors)

    @property
    def pids(self) -> list[int]:
        """Process ids of the servers that run."""
        found = [each.process for each in self._places]
        return [process.pid for process in found if process is not None]

    async def prepare(self, engines: Engines, state: SharedState) -> None:
        """Has all servers attach, and waits until they could accept connections.

        Raises:
            ApiServerEndedError: One has ended before.
        """
        self._tasks = [
            *(
                asyncio.create_task(self._keep(place, engines, state))
                for place in self._places
            ),
            asyncio.create_task(self._watch(engines)),
        ]
        async with in_background(self._all_prepared()) as prepared:
            await asyncio.wait(
                (prepared, *self._tasks), return_when=asyncio.FIRST_COMPLETED
            )
            if prepared.done():
                return
        for task in self._tasks:
            if task.done():
                task.result()

    async def start_accepting(self) -> None:
        """Has all servers accept connections, and waits for all of them."""
        self._may_begin.set()
        for place in self._places:
            await place.serving.wait()

    async def drain(self, timeout_seconds: float) -> None:
        """Lets the servers end after their open requests; kills those that do not."""
        self._stopping.set()
        for place in self._places:
            if place.process is not None:
                place.process.ask_to_drain()
        keeping = self._tasks[: self._size]
        if keeping:
            await asyncio.wait(keeping, timeout=timeout_seconds + _END_SECONDS)
        for place in self._places:
            if place.process is not None:
                logger.error("%s does not end and is killed", place.name)
                place.process.kill()
        await self.close()

    async def close(self) -> None:
        """Ends all that is left; may be called twice."""
        self._stopping.set()
        for place in self._places:
            if place.process is not None:
                place.process.kill()
            if (spare := place.spare) is not None:
                place.spare = None
                spare.kill()
                await spare.ended()
        if keeping := [task for task in self._tasks[: self._size] if not task.done()]:
            await asyncio.wait(keeping, timeout=_END_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _all_prepared(self) -> None:
        for place in self._places:
            await place.prepared.wait()

    async def _keep(self, place: _Place, engines: Engines, state: SharedState) -> None:
        """Runs processes in one place, one after another."""
        restarts = RestartBudget(_MOST_RESTARTS)
        while not self._stopping.is_set():
            reason = await self._run(place, engines, state)
            if self._stopping.is_set():
                return
            if not self._may_begin.is_set():
                raise ApiServerEndedError(f"{place.name} did not start: {reason}")
            delay = restarts.consume() or _LONG_PAUSE_SECONDS
            logger.error(
                "%s has ended: %s; its last log lines are before this one, its open "
                "requests were aborted, and it is replaced in %g s",
                place.name,
                reason,
                delay,
            )
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay)

    async def _run(self, place: _Place, engines: Engines, state: SharedState) -> str:
        """Runs one process until it ends; returns how it ended."""
        try:
            process = place.spare or ApiServerProcess(place.number, self._descriptors)
        except OSError as error:
            return f"its process cannot be started: {error}"
        place.spare = None
        link = process.connect()
        place.client_index = client = self._next_client()
        place.silent_seconds, place.last_beat = 0.0, 0
        place.kill_reason = None
        place.process = process
        try:
            link.send(self._welcome(place, engines))
            async with in_background(self._talk(place, link, state)) as talking:
                talking.add_done_callback(partial(_end_unheard, place, process))
                ended = await process.ended()
            return place.kill_reason or ended
        finally:
            place.process = None
            link.close()
            self._shares.clear(place.number)
            engines.force_detach(client)
            state.left(client)

    async def _talk(
        self, place: _Place, link: AsyncChannel[ToParent], state: SharedState
    ) -> None:
        async with asyncio.TaskGroup() as answering:
            await self._hear(place, link, state, answering)

    async def _hear(
        self,
        place: _Place,
        link: AsyncChannel[ToParent],
        state: SharedState,
        answering: asyncio.TaskGroup,
    ) -> None:
        while (message := await link.receive()) is not None:
            match message:
                case Prepared():
                    place.prepared.set()
                    await self._may_begin.wait()
                    link.send(Begin())
                case Serving(text):
                    self.banner = text
                    place.serving.set()
                case Ask():
                    client = place.client_index
                    answering.create_task(_answer(link, state, message, client))
                case _:
                    state.on_message(message, place.client_index)

    def _welcome(self, place: _Place, engines: Engines) -> Welcome:
        pages = self._listening.pages
        return Welcome(
            place=place.number,
            places=self._size,
            config=engine_share(engines.config, self._size),
            settings=self._settings,
            invitation=engines.invite(place.client_index),
            observer=engines.observer,
            api=_descriptors(self._listening.api),
            pages=() if pages is None else _descriptors(pages),
            shares=self._descriptor,
            began=self._began,
        )

    @property
    def _descriptors(self) -> list[int]:
        return [*(each.fileno() for each in self._listening.all), self._descriptor]

    def _next_client(self) -> int:
        """Returns an index that no server has, out of reach of outputs for others."""
        taken = {each.client_index for each in self._places if each.process is not None}
        while True:
            self._last_client = self._last_client % (MAX_CLIENTS - 1) + 1
            if self._last_client not in taken:
                return self._last_client

    async def _watch(self, engines: Engines) -> None:
        """Kills servers whose event loops hang, and those that engines gave up."""
        last, failures = time.monotonic(), FailureLog("API servers")
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = time.monotonic()
            # Time in which this process was stopped is not held against others.
            seconds, last = min(now - last, 2 * _LOOK_SECONDS), now
            looked = isolate(self._look_at_all, engines, seconds)
            if isinstance(looked, Failure):
                failures.note(("look",), looked.summary, error=looked.error)

    def _look_at_all(self, engines: Engines, seconds: float) -> None:
        overrun = engines.overrun()
        for place in self._places:
            if place.process is not None and not self._stopping.is_set():
                self._look(place, place.process, seconds, overrun)

    def _look(
        self,
        place: _Place,
        process: ApiServerProcess,
        seconds: float,
        overrun: frozenset[int],
    ) -> None:
        beat = self._shares.beat_of(place.number)
        is_alive = beat != place.last_beat or beat == 0
        place.silent_seconds = 0.0 if is_alive else place.silent_seconds + seconds
        place.last_beat = beat
        if place.client_index in overrun:
            place.kill_reason = "it did not take its outputs and was killed"
        elif place.silent_seconds > HUNG_SECONDS:
            place.kill_reason = f"it hung for {HUNG_SECONDS:g} s and was killed"
        else:
            return
        process.kill()


def _descriptors(bound: Bound) -> tuple[int, ...]:
    return tuple(each.fileno() for each in bound.sockets)


def _end_unheard(
    place: _Place, process: ApiServerProcess, talking: asyncio.Task[None]
) -> None:
    """Ends a process that is not heard any more, because of an error."""
    if talking.cancelled() or (error := talking.exception()) is None:
        return
    place.kill_reason = f"what it says cannot be taken: {error}"
    logger.error("%s: %s", place.name, place.kill_reason, exc_info=error)
    process.kill()


async def _answer(
    link: AsyncChannel[ToParent], state: SharedState, ask: Ask, client: int
) -> None:
    link.send(await state.answer(ask, client))
