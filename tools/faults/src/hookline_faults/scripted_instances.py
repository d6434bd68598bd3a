"""Instances that answer as they are told, and a route before them, for tests."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from multidict import CIMultiDictProxy

from hookline_pd_proxy.app import create_route
from hookline_pd_proxy.settings import RouteSettings
from hookline_server.listening import listen, url

Client = TestClient[web.Request, web.Application]

TOLD: dict[str, object] = {
    "do_remote_prefill": True,
    "remote_block_ids": [1, 2, 3],
    "remote_engine_id": "p",
    "remote_port": 12345678901234567890123,
}


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came.

    Attributes:
        target: Path and query, as they were on the wire.
    """

    method: str
    target: str
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def fields(self) -> dict[str, object]:
        """Of its JSON object."""
        return msgspec.json.decode(self.body, type=dict[str, object])


class FakeInstance:
    """A server.

    Attributes:
        url: Of it.
        received: All but looks at its health and its metrics.
        status: Of its answers; one that is no 200 has `error` for a body.
        told: As `kv_transfer_params` of an answer to a prefill.
        pieces: Of its answer to anything else; those of a stream one by one.
        headers: Of such an answer.
        gate: Answers wait for it, those of a stream after `free_pieces`.
        cut_after: The connection is closed after so many pieces.
        left: Set when a client has left before the end.
        health: Status of its health checks.
        running: As its metrics tell, like the next two.
    """

    def __init__(self) -> None:
        self.url = ""
        self.received: list[Received] = []
        self.status = 200
        self.error = b'{"error": {"message": "no", "code": "some_code"}}'
        self.told: object = TOLD
        self.pieces: Sequence[bytes] = (b'data: {"a": 1}\n\n', b"data: [DONE]\n\n")
        self.headers: dict[str, str] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.free_pieces = 0
        self.cut_after: int | None = None
        self.arrived = asyncio.Event()
        self.left = asyncio.Event()
        self.looked_at = 0
        self.health = 200
        self.running = self.waiting = 0
        self.kv_usage = 0.0

    async def looks(self, times: int = 2) -> None:
        """Waits until a route has looked at it so many times more."""
        wanted = self.looked_at + times
        async with asyncio.timeout(5):
            while True:
                if self.looked_at >= wanted:
                    return
                await asyncio.sleep(0.005)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Serves it on a port of its own."""
        app = web.Application(client_max_size=2**26)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_route("*", "/{path:.*}", self._answer)
        async with TestServer(app) as server:
            self.url = str(server.make_url("")).rstrip("/")
            yield

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(status=self.health)

    async def _metrics(self, _: web.Request) -> web.Response:
        self.looked_at += 1
        return web.Response(
            text=f'vllm:num_requests_running{{engine="0"}} {self.running}.0\n'
            f'vllm:num_requests_waiting{{engine="0"}} {self.waiting}.0\n'
            f'vllm:kv_cache_usage_perc{{engine="0"}} {self.kv_usage}\n'
        )

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.received.append(
            Received(request.method, request.raw_path, request.headers, body)
        )
        self.arrived.set()
        try:
            if not self.free_pieces:
                await self.gate.wait()
            if self.status != 200:
                return self._refusal()
            if b'"do_remote_decode":true' in body:
                return self._prefilled()
            return await self._pieces(request)
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise

    def _refusal(self) -> web.Response:
        return web.Response(
            status=self.status,
            body=self.error,
            headers={"X-Own": "kept", "Keep-Alive": "timeout=5"},
            content_type="application/json",
        )

    def _prefilled(self) -> web.Response:
        told = {"choices": [], "kv_transfer_params": self.told}
        body = self.told if isinstance(self.told, bytes) else msgspec.json.encode(told)
        return web.Response(body=body, content_type="application/json")

    async def _pieces(self, request: web.Request) -> web.StreamResponse:
        is_stream = self.pieces[0].startswith(b"data:")
        response = web.StreamResponse(headers={"X-Own": "kept", **self.headers})
        response.content_type = "text/event-stream" if is_stream else "application/json"
        if not is_stream:
            response.content_length = sum(map(len, self.pieces))
        await response.prepare(request)
        for number, piece in enumerate(self.pieces):
            if number >= self.free_pieces:
                await self.gate.wait()
            if number == self.cut_after:
                assert request.transport is not None
                request.transport.abort()
            await response.write(piece)
        return response


def dead_instance() -> FakeInstance:
    """Nobody listens there."""
    instance = FakeInstance()
    with listen("127.0.0.1", 0) as bound:
        instance.url = url(bound)
    return instance


async def numbers_of(client: Client) -> dict[str, float]:
    """The route's metrics that are not zero, by what stands before the number."""
    page = await (await client.get("/metrics")).text()
    lines = [line.rsplit(" ", 1) for line in page.splitlines() if line[0] != "#"]
    return {
        name.removeprefix("hookline_route_"): float(value)
        for name, value in lines
        if float(value)
    }


async def until(
    client: Client, *names: str, gone: Sequence[str] = ()
) -> dict[str, float]:
    """Waits until none of these metrics is zero, and those that are gone are."""
    async with asyncio.timeout(5):
        while True:
            numbers = await numbers_of(client)
            if set(names) <= numbers.keys() and not set(gone) & numbers.keys():
                return numbers
            await asyncio.sleep(0.01)


@asynccontextmanager
async def routed(
    prefill: Sequence[FakeInstance],
    decode: Sequence[FakeInstance],
    **options: object,
) -> AsyncIterator[Client]:
    """A client of a route before such instances; those with a URL are not served."""
    async with AsyncExitStack() as stack:
        for each in (*prefill, *decode):
            if not each.url:
                await stack.enter_async_context(each.served())
        values: dict[str, object] = {"poll_seconds": 0.02, **options}
        settings = RouteSettings(
            prefill=[each.url for each in prefill],
            decode=[each.url for each in decode],
            **values,  # type: ignore[arg-type]
        )
        app = create_route(settings)
        yield await stack.enter_async_context(TestClient(TestServer(app)))
