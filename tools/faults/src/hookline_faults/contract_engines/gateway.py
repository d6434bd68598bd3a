"""A gateway in front of scripted instances, as the suite for engines drives it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

from aiohttp import ClientError
from aiohttp.test_utils import TestClient, TestServer

from hookline.config import EngineConfig
from hookline.config.observers import ObserverConfig
from hookline.payloads import EngineFailed, LoggerContext, StateChanged
from hookline.request import FinishReason
from hookline_faults.scripted_gateway import CHAT, DONE, ROLE, chunk, data, usage
from hookline_faults.scripted_instances import Client, FakeInstance
from hookline_gateway.app import create_gateway
from hookline_gateway.measuring.told import TELLS, named
from hookline_gateway.settings import Balance, GatewaySettings
from hookline_testing.engine_contract import Case, End, Scene, Session
from hookline_testing.own_time import Deadline
from hookline_testing.recording_logger import RecordingLogger

_SECONDS = 20.0
_POLL_SECONDS = 0.02


class Heard(RecordingLogger):
    """The logger of the latest gateway."""

    latest: "Heard | None" = None

    def __init__(self, context: LoggerContext) -> None:
        del context
        super().__init__()
        Heard.latest = self


class GatewayEngine:
    """Implements `EngineUnderTest`."""

    name = "gateway"
    tells = TELLS
    cannot: Mapping[Case, str] = {
        Case.ABORT_WAITING: "a gateway sends each request on at once",
        Case.TIMEOUT: "deadlines are the upstream's",
    }

    def play(self, scene: Scene) -> Session:
        """Implements `EngineUnderTest`."""
        return asyncio.run(_play(scene))


async def _play(scene: Scene) -> Session:
    instances = [FakeInstance() for _ in range(2 if scene is Scene.SEVERAL else 1)]
    ends: dict[str, End] = {}
    async with _running(*instances) as run:
        if scene is Scene.REQUESTS:
            ends |= await _play_requests(run)
        elif scene is Scene.DEATH:
            ends[Case.DEATH] = await _cut(run)
        else:
            for number in range(2):
                client_id = f"{Case.SEVERAL}-{number}"
                await run.ask(client_id)
                asked = [client_id in each for each in map(_ids_of, instances)]
                ends[client_id] = End(FinishReason.STOP, 2, asked.index(True))
    return Session(tuple(run.heard.calls), ends)


async def _play_requests(run: "_Run") -> Mapping[str, End]:
    await run.ask(Case.LENGTH, reason="length")
    await run.ask(Case.STOP)
    await run.leave(Case.ABORT_PREFILL, after=0)
    await run.leave(Case.ABORT_DECODE, after=2)
    run.instance.status = 400
    await run.ask(Case.REJECTED)
    run.instance.status = 200
    await run.until_told(StateChanged, len(run.heard.calls))
    return {
        Case.LENGTH: End(FinishReason.LENGTH, 2),
        Case.STOP: End(FinishReason.STOP, 2),
        Case.ABORT_PREFILL: End(FinishReason.ABORT),
        Case.ABORT_DECODE: End(FinishReason.ABORT),
        Case.REJECTED: End(FinishReason.REJECTED),
    }


async def _cut(run: "_Run") -> End:
    """Has the upstream end in the midst of a stream."""
    run.instance.cut_after, run.instance.health = 2, 503
    with suppress(ClientError):
        await run.ask(Case.DEATH)
    await run.until_told(EngineFailed)
    return End(FinishReason.ERROR)


@dataclass(frozen=True, slots=True)
class _Run:
    client: Client
    instance: FakeInstance
    heard: Heard

    async def ask(self, client_id: str, reason: str = "stop") -> None:
        """Asks for a stream, and reads it to its end."""
        self.instance.pieces = _pieces(reason)
        async with self.client.post(
            CHAT, json={"stream": True}, headers={"X-Request-Id": client_id}
        ) as response:
            await response.read()

    async def leave(self, client_id: str, *, after: int) -> None:
        """Leaves a stream after some of its events."""
        instance = self.instance
        instance.pieces, instance.free_pieces = _pieces("stop"), after
        instance.gate.clear()
        instance.arrived.clear()
        instance.left.clear()
        headers = {"X-Request-Id": client_id}
        asking = asyncio.create_task(
            self.client.post(CHAT, json={"stream": True}, headers=headers)
        )
        await instance.arrived.wait()
        if after:
            response = await asking
            for _ in range(after):
                await response.content.readuntil(b"\n\n")
            response.close()
        else:
            asking.cancel()
        await instance.left.wait()
        instance.free_pieces = 0
        instance.gate.set()

    async def until_told(self, kind: type, begun: int = 0) -> None:
        """Waits until a payload of a kind is told after the `begun` first ones."""
        deadline = Deadline(_SECONDS)
        while not any(isinstance(each, kind) for _, each in self.heard.calls[begun:]):
            assert deadline.is_ahead, f"no {kind.__name__} is told"
            await asyncio.sleep(_POLL_SECONDS)


@asynccontextmanager
async def _running(*instances: FakeInstance) -> AsyncIterator[_Run]:
    async with AsyncExitStack() as stack:
        for each in instances:
            each.models = ["m"]
            each.pieces = _pieces("stop")
            await stack.enter_async_context(each.served())
        settings = GatewaySettings(
            upstream=[each.url for each in instances],
            balance=Balance.ROUND_ROBIN,
            poll_seconds=_POLL_SECONDS,
            retries=0,
        )
        observers = ObserverConfig(stat_loggers=(f"{__name__}:Heard",))
        config = named(EngineConfig(observers=observers))
        app = create_gateway(settings, config, None)
        client: Client = await stack.enter_async_context(TestClient(TestServer(app)))
        assert Heard.latest is not None
        yield _Run(client, instances[0], Heard.latest)


def _pieces(reason: str) -> list[bytes]:
    finish = data({"choices": [{"delta": {}, "finish_reason": reason}]})
    used = data({"choices": [], "usage": usage(4, 2)})
    return [ROLE, chunk("a"), chunk("b"), finish, used, DONE]


def _ids_of(instance: FakeInstance) -> set[str]:
    return {each.headers.get("X-Request-Id", "") for each in instance.received}
