"""One request over HTTP, on a clock that the server moves."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer, TestServer

from hookline.exceptions import ConfigError
from hookline_bench.answer import Answer
from hookline_bench.client import Backend, Client, Endpoint
from hookline_bench.load import drive, open_session, wait_until_ready
from hookline_bench.random_prompts import Prompt
from hookline_bench.serve_settings import ServeSettings
from hookline_bench.server_pages import first_model, page_or_none
from hookline_server.app import create_app
from hookline_server.listening import bound_port, listen
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

PROMPT = Prompt(content=[65, 66], prompt_tokens=2, output_tokens=5)
TOKEN = b'data: {"choices":[{"index":0,"text":"a","finish_reason":null}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}\n\n'
DONE = b"data: [DONE]\n\n"


class ServerClock:
    """Shows the client what the server has set, and the server that it was read."""

    def __init__(self) -> None:
        self.now = 0.0
        self.was_read = asyncio.Event()

    def __call__(self) -> float:
        self.was_read.set()
        return self.now


class ScriptedServer:
    """Writes pieces at times, each when the one before has been read.

    Attributes:
        bodies: What was asked for.
        most_open: Most requests that were open at once.
    """

    def __init__(
        self, script: Sequence[tuple[float, bytes]], *, failures: int = 0
    ) -> None:
        self.clock = ServerClock()
        self.bodies: list[dict[str, object]] = []
        self.headers: list[str | None] = []
        self.most_open = 0
        self._open = 0
        self._script = script
        self._failures = failures

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(json.loads(await request.read()))
        self.headers.append(request.headers.get("X-Test"))
        if len(self.bodies) <= self._failures:
            raise web.HTTPServiceUnavailable(text="still\nloading")
        self._open += 1
        self.most_open = max(self.most_open, self._open)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for at, piece in self._script:
            self.clock.now = at
            self.clock.was_read.clear()
            await response.write(piece)
            await self.clock.was_read.wait()
        self._open -= 1
        return response

    @asynccontextmanager
    async def client(
        self, backend: Backend = Backend.OPENAI, *, has_counts: bool = False
    ) -> AsyncGenerator[Client]:
        app = web.Application()
        app.router.add_post("/any", self.answer)
        async with TestServer(app) as server, open_session() as session:
            endpoint = Endpoint(
                url=str(server.make_url("/any")),
                backend=backend,
                model="m",
                has_counts=has_counts,
                headers={"X-Test": "yes"},
                fields={"temperature": 0, "model": "other"},
            )
            yield Client(session, endpoint, self.clock)

    async def ask(self) -> Answer:
        async with self.client() as client:
            return await client.ask(PROMPT)


async def test_times_are_those_of_the_chunks() -> None:
    """
    A token has the time at which its chunk was read, and the server's count is used.
    """
    script = [(1.0, TOKEN), (1.5, TOKEN), (3.0, TOKEN + TOKEN[:20]), (4.0, TOKEN[20:])]

    found = await ScriptedServer([*script, (9.0, USAGE + DONE)]).ask()

    assert found.error is None
    assert list(found.times) == [1.0, 1.5, 3.0, 4.0]
    assert found.ttft == 1.0
    assert found.latency == 4.0
    assert list(found.intervals()) == [0.5, 1.5, 1.0]
    assert (found.prompt_tokens, found.output_tokens) == (9, 4)


async def test_cached_tokens_are_those_of_the_usage() -> None:
    """
    How much of the prompt came from a cache is known if the server says it.
    """
    usage = USAGE.replace(
        b'"completion_tokens"',
        b'"prompt_tokens_details":{"cached_tokens":8},"completion_tokens"',
    )

    reported = await ScriptedServer([(1.0, TOKEN), (2.0, usage + DONE)]).ask()
    untold = await ScriptedServer([(1.0, TOKEN), (2.0, USAGE + DONE)]).ask()

    assert (reported.cached_tokens, untold.cached_tokens) == (8, 0)


async def test_without_usage_tokens_are_counted() -> None:
    """
    Without usage each chunk counts one token, and the prompt its planned length.
    """
    found = await ScriptedServer([(1.0, TOKEN), (2.0, TOKEN)]).ask()

    assert (found.prompt_tokens, found.output_tokens) == (2, 2)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ([(1.0, DONE)], "the stream brought no token"),
        ([(1.0, TOKEN), (2.0, b'data: {"error":"gone"}\n\n')], "gone"),
        ([(1.0, b"data: nonsense\n\n")], "not a chunk"),
    ],
)
async def test_bad_streams_are_failures(
    script: list[tuple[float, bytes]], error: str
) -> None:
    """
    A stream that brings no token, an error or nonsense is a failure with its reason.
    """
    found = await ScriptedServer(script).ask()

    assert found.error is not None
    assert error in found.error


async def test_refusals_are_failures() -> None:
    """
    A status other than 200 is a failure with status and text in one line.
    """
    found = await ScriptedServer([], failures=1).ask()

    assert found.error == "EventStreamError: 503 Service Unavailable: still loading"


async def test_no_server_is_a_failure() -> None:
    """
    A connection that cannot be made fails the request, and no more.
    """
    endpoint = Endpoint(url="http://127.0.0.1:1/", backend=Backend.OPENAI, model="m")

    async with open_session() as session:
        found = await Client(session, endpoint, ServerClock()).ask(PROMPT)

    assert found.error is not None
    assert "Cannot connect" in found.error


async def test_completion_request_has_these_fields() -> None:
    """
    A request asks for a stream with usage; the user's fields win.
    """
    server = ScriptedServer([(1.0, TOKEN)])

    await server.ask()

    assert server.bodies == [
        {
            "model": "other",
            "prompt": [65, 66],
            "max_tokens": 5,
            "stream": True,
            "stream_options": {"include_usage": True},
            "ignore_eos": True,
            "temperature": 0,
        }
    ]
    assert server.headers == ["yes"]


async def test_chat_request_has_a_message_and_may_ask_for_counts() -> None:
    """
    A chat's prompt is the user's message; token counts are optional.
    """
    server = ScriptedServer([(1.0, TOKEN)])

    async with server.client(Backend.OPENAI_CHAT, has_counts=True) as client:
        await client.ask(Prompt(content="Hi", prompt_tokens=1, output_tokens=1))

    (body,) = server.bodies
    assert body["messages"] == [{"role": "user", "content": "Hi"}]
    assert "prompt" not in body
    options = {"include_usage": True, "continuous_usage_stats": True}
    assert body["stream_options"] == options


async def test_concurrency_has_its_limit() -> None:
    """
    No more requests are open at once than allowed, and all are answered.
    """
    server = ScriptedServer([(1.0, TOKEN)])
    done: list[None] = []

    async with server.client() as client:
        run = await drive(
            client,
            [PROMPT] * 9,
            [0.0] * 9,
            max_concurrency=2,
            when_done=lambda: done.append(None),
        )

    assert len(run.answers) == len(done) == 9
    assert server.most_open == 2
    assert run.seconds > 0


async def test_requests_are_not_sent_before_they_are_due() -> None:
    """
    Load follows the arrival times.
    """
    server = ScriptedServer([(1.0, TOKEN)])

    async with server.client() as client:
        run = await drive(client, [PROMPT] * 3, [0.0, 0.05, 0.1])

    first, second, third = (answer.due_at for answer in run.answers)
    assert (second - first, third - first) == pytest.approx((0.05, 0.1))


async def test_readiness_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A server that is still loading is asked again until it answers well.
    """
    monkeypatch.setattr("hookline_bench.load.RETRY_SECONDS", 0.0)
    server = ScriptedServer([(1.0, TOKEN)], failures=2)

    async with server.client() as client:
        await wait_until_ready(client, PROMPT, 60.0)

    assert len(server.bodies) == 3


async def test_waiting_for_readiness_ends() -> None:
    """
    A server that never answers well is one clear error, with its own last word.
    """
    server = ScriptedServer([], failures=1000)

    async with server.client() as client:
        with pytest.raises(ConfigError, match=r"within 0.2 s.*still loading"):
            await wait_until_ready(client, PROMPT, 0.2)


@pytest.mark.parametrize("backend", Backend)
@pytest.mark.parametrize("has_counts", [True, False])
async def test_our_own_server_is_measured_right(
    backend: Backend, has_counts: bool
) -> None:
    """
    Chunks of several tokens count as such, in completions and chats.
    """
    path = {"openai": "/v1/completions", "openai-chat": "/v1/chat/completions"}
    engine = FakeEngine(["a", "bcd", "e"])
    prompt = Prompt(content="Hi", prompt_tokens=2, output_tokens=5)

    async with client_of(engine) as server, open_session() as session:
        endpoint = Endpoint(
            url=str(server.make_url(path[backend])),
            backend=backend,
            model="fake",
            has_counts=has_counts,
        )
        found = await Client(session, endpoint, ServerClock()).ask(prompt)

    assert found.error is None
    assert found.output_tokens == 5
    assert list(found.counts) == ([1, 3, 1] if has_counts else [1, 2, 2])


async def test_a_servers_model_is_found() -> None:
    """
    The first model is found by itself; pages that are not there are None.
    """
    async with client_of(FakeEngine()) as server:
        root = str(server.make_url("")).rstrip("/")

        assert await first_model(root, {}, 0) == "fake"
        assert await page_or_none(f"{root}/nothing", {}) is None
    with pytest.raises(ConfigError, match="Connection refused"):
        await first_model(root, {}, 0)


async def test_a_server_on_ipv6_is_asked() -> None:
    """
    An address is given as sockets take it, and its URL has the brackets.
    """
    server = TestServer(create_app(FakeEngine(), ServerSettings()), host="::1")
    async with server:
        settings = ServeSettings(host="::1", port=server.port or 0)

        found = await first_model(settings.root, {}, 0)

    assert found == "fake"
    assert settings.url == f"http://[::1]:{settings.port}/v1/completions"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_this_machine_is_measured_without_a_proxy(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """
    The proxy of the environment is for servers on other machines.
    """
    with listen("127.0.0.1", 0) as free:
        dead = f"http://127.0.0.1:{bound_port(free)}"
    monkeypatch.setenv("HTTP_PROXY", dead)
    server = TestServer(create_app(FakeEngine(), ServerSettings()), host=host)
    async with server:
        settings = ServeSettings(host=host, port=server.port or 0)

        found = await first_model(settings.root, {}, 0)

    assert found == "fake"
    assert settings.proxy is None
    assert ServeSettings(host="192.0.2.1").proxy == dead


async def test_a_proxy_is_asked_for_other_machines() -> None:
    """
    It gets the whole URL.
    """
    asked = []

    async def proxy(request: web.BaseRequest) -> web.Response:
        asked.append(request.raw_path)
        return web.json_response({"data": [{"id": "far"}]})

    async with (
        RawTestServer(proxy) as server,
        open_session(str(server.make_url(""))) as session,
        session.get("http://192.0.2.1:8000/v1/models") as response,
    ):
        await response.read()

    assert asked == ["http://192.0.2.1:8000/v1/models"]


async def test_the_server_may_start_while_its_model_is_asked_for() -> None:
    """
    The model of a server that does not listen yet is waited for.
    """
    with listen("127.0.0.1", 0) as free:
        port = bound_port(free)
    asked = asyncio.create_task(first_model(f"http://127.0.0.1:{port}", {}, 30))
    await asyncio.sleep(0.1)
    assert not asked.done()

    server = TestServer(create_app(FakeEngine(), ServerSettings()), port=port)
    async with server:
        found = await asked

    assert found == "fake"
