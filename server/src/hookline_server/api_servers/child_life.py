"""The life cycle of one API server: attach, serve until a signal, drain, end."""

import asyncio
import logging
import socket
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec
from aiohttp import web

from hookline.frontend.observing import ObserverAddress
from hookline.transport.engine_client import EngineClient
from hookline_kernels.runtime.gc_freeze import freeze_gc
from hookline_processes.async_channel import AsyncChannel
from hookline_server.access_log import access_log
from hookline_server.api_servers.asking import (
    Questions,
    SharedAllowance,
    SharedResponses,
    SharedScaling,
)
from hookline_server.api_servers.messages import (
    ENCODER,
    Begin,
    Prepared,
    Serving,
    ToChild,
    Welcome,
)
from hookline_server.api_servers.questions import Answer, Draw
from hookline_server.api_servers.share import Share
from hookline_server.api_servers.shared_parts import SharedParts
from hookline_server.api_servers.shares import Shares
from hookline_server.auth.key import ApiKey
from hookline_server.background import in_background
from hookline_server.cli.commands.banner import banner
from hookline_server.engine import ServingEngine
from hookline_server.engine_sharing import AttachedEngines, AttachInfo, require_cluster
from hookline_server.engine_start import attach_to_engines
from hookline_server.forked_children import release_in_forked_children
from hookline_server.listening import Bound, Listening
from hookline_server.serving import serve_engine, started
from hookline_server.stop_signals import FORCED_END_SECONDS, StopSignals
from hookline_server.tls.certificates import tls_of

logger = logging.getLogger(__name__)


async def serve_as_child(channel: socket.socket, folders: set[Path]) -> None:
    """Serves until SIGTERM, as the parent at the channel's other end says.

    Args:
        channel: The channel to the parent.
        folders: Gets the folders of the parent's sockets.
    """
    link = AsyncChannel(channel, msgspec.msgpack.Decoder(ToChild), ENCODER)
    welcome = await link.receive()
    if not isinstance(welcome, Welcome):
        return  # the parent has gone already
    folders |= set(map(Path, welcome.invitation.folders))
    signals = StopSignals(welcome.settings.shutdown_seconds + FORCED_END_SECONDS)
    status = 1
    try:
        with access_log(welcome.settings.log):
            await _ChildLife(link, welcome, signals.requested).run()
        status = 0
    finally:
        signals.ends(status)


class _ChildLife:
    """One API server; for its event loop."""

    def __init__(
        self, link: AsyncChannel[ToChild], welcome: Welcome, stopping: asyncio.Event
    ) -> None:
        self._link = link
        self._welcome = welcome
        self._stopping = stopping
        self._begin: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._questions = Questions(link.send)
        self._listening = _listening(welcome)

    async def run(self) -> None:
        """Attaches to the engines, and serves once the parent says so."""
        release_in_forked_children(self._listening.all)
        welcome = self._welcome
        client = await asyncio.to_thread(_attached, welcome.invitation)
        engine = await started(
            lambda: attach_to_engines(welcome.config, client, _observer(welcome)),
            self._stopping,
        )
        if engine is None:
            return
        async with in_background(self._hear_parent()):
            try:
                async with in_background(self._end_if_broken(engine, client)):
                    await self._serve_when_asked(engine)
            finally:
                await engine.close()

    async def _serve_when_asked(self, engine: ServingEngine) -> None:
        """Serves once the parent says so, unless the server is to end before."""
        self._link.send(Prepared())
        async with in_background(self._stopping.wait()) as stopped:
            await asyncio.wait(
                (self._begin, stopped), return_when=asyncio.FIRST_COMPLETED
            )
        if self._begin.done():
            await self._serve(engine)

    async def _end_if_broken(self, engine: ServingEngine, client: EngineClient) -> None:
        """Ends the process if its front end has failed, and not the engines.

        Its parent replaces it; it would answer its part of all requests with errors.
        """
        await engine.failed.wait()
        attached = client.capability(AttachedEngines)
        if attached is None or not attached.are_engines_gone:
            logger.error("this API server exits, because it no longer works")
            self._stopping.set()

    async def _serve(self, engine: ServingEngine) -> None:
        await serve_engine(
            engine,
            self._listening,
            self._welcome.settings,
            self._stopping,
            self._when_ready,
            shared=self._shared_parts(),
        )

    def _when_ready(self, app: web.Application) -> None:
        freeze_gc()
        listening = self._listening
        text = banner(
            app,
            root=listening.api.url,
            pages_root=(listening.pages or listening.api).url,
            seconds=time.monotonic() - self._welcome.began,
        )
        self._link.send(Serving(text))

    def _shared_parts(self) -> SharedParts:
        welcome, questions = self._welcome, self._questions
        store = welcome.settings.response_store

        def allowance_of(key: ApiKey, tenant: str | None) -> SharedAllowance:
            return SharedAllowance(
                questions, Draw(key.id if key.limits else None, tenant)
            )

        return SharedParts(
            share=Share(Shares(welcome.shares, welcome.places), welcome.place),
            responses=SharedResponses(questions, is_enabled=store.is_enabled),
            allowance_of=allowance_of,
            scaling=SharedScaling(questions),
        )

    async def _hear_parent(self) -> None:
        while (message := await self._link.receive()) is not None:
            if isinstance(message, Answer):
                self._questions.on_answer(message)
            elif isinstance(message, Begin) and not self._begin.done():
                self._begin.set_result(None)


def _attached(info: AttachInfo) -> EngineClient:
    return require_cluster("api-server-count").attach(info)


def _listening(welcome: Welcome) -> Listening:
    """Takes over the sockets; their certificates are read in this process, too."""
    tls = tls_of(welcome.settings.tls)
    api = Bound(_sockets(welcome.api), tls)
    if not welcome.pages:
        return Listening(api)
    return Listening(api, Bound(_sockets(welcome.pages), tls and tls.without_clients()))


def _sockets(descriptors: Iterable[int]) -> tuple[socket.socket, ...]:
    return tuple(socket.socket(fileno=each) for each in descriptors)


def _observer(welcome: Welcome) -> ObserverAddress | None:
    if (endpoint := welcome.observer) is None:
        return None
    index = welcome.invitation.client_index
    return ObserverAddress(Path(endpoint.folder), endpoint.key, index)
