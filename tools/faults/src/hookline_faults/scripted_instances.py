"""Instances with scripted answers, and a proxy in front of them, for tests."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from multidict import CIMultiDictProxy
from yarl import URL

from hookline_pd_proxy.app import create_route
from hookline_pd_proxy.settings import RouteSettings
from hookline_pd_proxy.tracing import Tracing
from hookline_server.listening import listen, url

Client = TestClient[web.Request, web.Application]

TRANSFER_PARAMS: dict[str, object] = {
    "do_remote_prefill": True,
    "remote_block_ids": [1, 2, 3],
    "remote_engine_id": "p",
    "remote_port": 12345678901234567890123,
}


@dataclass(frozen=True, slots=True)
class Received:
    """A received request.

    Attributes:
        target: Path and query, as on the wire.
    """

    method: str
    target: str
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def fields(self) -> dict[str, object]:
        """Returns a field of the JSON body."""
        return msgspec.json.decode(self.body, type=dict[str, object])


class FakeInstance:
    """A server with scripted answers.

    Attributes:
        url: URL of the server.
        received: Received requests, without health checks and scrapes.
        status: Status of the answers; other than 200 it comes with the body `error`.
        transfer_params: `kv_transfer_params` in the answer to a prefill.
        pieces: Body of other answers; a stream sends the pieces one by one.
        headers: Headers of other answers.
        gate: Answers wait until it is set; streams wait after `free_pieces`.
        cut_after: Number of pieces after which the connection is closed.
        left: Set when a client has disconnected early.
        health: Status of the health checks.
        running: Number of running requests in the metrics.
        waiting: Number of waiting requests in the metrics.
        kv_usage: Usage of the KV cache in the metrics; None leaves it out.
        page: Its whole page of metrics; None makes one of the numbers above.
        models: Names of its models; None answers the request for them like others.
        written: Number of pieces that its connections have taken.
        tickets: Each piece of an answer takes one, and waits for it; None for none.
        max_model_len: Maximum tokens of a sequence in the metrics; None leaves it out.
        released: Ids of transfers that it was told to release.
        release_statuses: Statuses of the next answers to that; then 200.
        told: Set when it was told to release one.
    """

    def __init__(self) -> None:
        self.url = ""
        self.received: list[Received] = []
        self.status = 200
        self.error = b'{"error": {"message": "no", "code": "some_code"}}'
        self.transfer_params: object = TRANSFER_PARAMS
        self.pieces: Sequence[bytes] = (b'data: {"a": 1}\n\n', b"data: [DONE]\n\n")
        self.headers: dict[str, str] = {}
        self.looked_with: str | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.free_pieces = 0
        self.cut_after: int | None = None
        self.arrived = asyncio.Event()
        self.left = asyncio.Event()
        self.looked_at = 0
        self.health = 200
        self.max_model_len: int | None = None
        self.released: list[str] = []
        self.release_statuses: list[int] = []
        self.told = asyncio.Event()
        self.running = self.waiting = 0
        self.kv_usage: float | None = 0.0
        self.page: str | None = None
        self.models: Sequence[str] | None = None
        self.tickets: asyncio.Semaphore | None = None
        self.written = 0

    async def looks(self, times: int = 2) -> None:
        """Waits until the proxy has polled the instance this many times more."""
        target_count = self.looked_at + times
        async with asyncio.timeout(5):
            while True:
                if self.looked_at >= target_count:
                    return
                await asyncio.sleep(0.005)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Runs the instance on a free port, the same one if it runs again."""
        app = web.Application(client_max_size=2**26)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_delete("/v1/kv_transfers/{transfer_id}", self._release)
        app.router.add_get("/v1/models", self._models)
        app.router.add_route("*", "/{path:.*}", self._answer)
        port = URL(self.url).port if self.url else None
        async with TestServer(app, port=port) as server:
            self.url = str(server.make_url("")).rstrip("/")
            yield

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(status=self.health)

    async def _release(self, request: web.Request) -> web.Response:
        if self.release_statuses:
            return web.Response(status=self.release_statuses.pop(0))
        self.released.append(request.match_info["transfer_id"])
        self.told.set()
        return web.json_response({"released_blocks": 1})

    async def _metrics(self, request: web.Request) -> web.Response:
        self.looked_at += 1
        self.looked_with = request.headers.get("Authorization")
        if self.page is not None:
            return web.Response(text=self.page)
        length, usage = self.max_model_len, self.kv_usage
        info = f'hookline_engine_info{{a="b",max_model_len="{length}"}} 1.0\n'
        return web.Response(
            text=("" if length is None else info)
            + f'vllm:num_requests_running{{engine="0"}} {self.running}.0\n'
            f'vllm:num_requests_waiting{{engine="0"}} {self.waiting}.0\n'
            + ("" if usage is None else f"vllm:kv_cache_usage_perc {usage}\n")
        )

    async def _models(self, request: web.Request) -> web.StreamResponse:
        if self.models is None:
            return await self._answer(request)
        return web.json_response({"data": [{"id": name} for name in self.models]})

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
        prefilled = {"choices": [], "kv_transfer_params": self.transfer_params}
        body = (
            self.transfer_params
            if isinstance(self.transfer_params, bytes)
            else msgspec.json.encode(prefilled)
        )
        return web.Response(body=body, content_type="application/json")

    async def _pieces(self, request: web.Request) -> web.StreamResponse:
        is_stream = self.pieces[0].startswith((b"data:", b"event:"))
        response = web.StreamResponse(headers={"X-Own": "kept", **self.headers})
        response.content_type = "text/event-stream" if is_stream else "application/json"
        if not is_stream:
            response.content_length = sum(map(len, self.pieces))
        await response.prepare(request)
        for number, piece in enumerate(self.pieces):
            if number >= self.free_pieces:
                await self.gate.wait()
            if self.tickets is not None:
                await self.tickets.acquire()
            if number == self.cut_after:
                assert request.transport is not None
                request.transport.abort()
            await response.write(piece)
            self.written += 1
        return response


def dead_instance() -> FakeInstance:
    """Returns an instance that does not listen."""
    instance = FakeInstance()
    with listen("127.0.0.1", 0) as bound:
        instance.url = url(bound)
    return instance


def transfer_id_of(prefill: FakeInstance) -> str:
    """Returns the id under which the proxy's first prompt was to be kept."""
    params = prefill.received[0].fields["kv_transfer_params"]
    assert isinstance(params, dict)
    return str(params["transfer_id"])


async def numbers_of(client: Client) -> dict[str, float]:
    """Returns the proxy's non-zero metrics, by the text before the value."""
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
    """Waits until these metrics are non-zero, and the `gone` ones are zero."""
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
    tracing: Tracing | None = None,
    **options: object,
) -> AsyncIterator[Client]:
    """Yields a proxy's client; starts the instances that have no URL yet."""
    async with AsyncExitStack() as stack:
        for each in (*prefill, *decode):
            if not each.url:
                await stack.enter_async_context(each.served())
        # A crowded machine may take its time to connect.
        own: dict[str, object] = {"poll_seconds": 0.02, "connect_timeout": 30.0}
        values = {**own, **options}
        settings = RouteSettings(
            prefill=[each.url for each in prefill],
            decode=[each.url for each in decode],
            **values,  # type: ignore[arg-type]
        )
        app = create_route(settings, tracing)
        yield await stack.enter_async_context(TestClient(TestServer(app)))
