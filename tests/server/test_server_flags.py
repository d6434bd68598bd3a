"""Flags of vLLM's server: usage, roles, paths, middlewares, lines of the log."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, TCPConnector

from hookline.exceptions import ConfigError
from hookline_server.access_log import access_log
from hookline_server.answers.settings import ResponseSettings
from hookline_server.app import create_app
from hookline_server.cli import main
from hookline_server.listening import listen, url
from hookline_server.logs.config_file import LogSettings
from hookline_server.middlewares import load_middlewares
from hookline_server.settings import ServerSettings
from hookline_server.sites import sites
from hookline_testing.scripted_server import FakeEngine, client_of

BODIES: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": "ab"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}]},
}
CHAT = "/v1/chat/completions"


async def events_of(path: str, settings: ResponseSettings, **fields: object) -> Any:
    made = ServerSettings(responses=settings)
    async with client_of(FakeEngine(("a", "b")), made) as client:
        body = {**BODIES[path], "stream": True, **fields}
        text = await (await client.post(path, json=body)).text()
    events = text.removesuffix("data: [DONE]\n\n").split("\n\n")[:-1]
    return [json.loads(each.removeprefix("data: ")) for each in events]


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("asked", [None, {"include_usage": False}])
async def test_usage_can_be_in_every_stream(
    path: str, asked: dict[str, bool] | None
) -> None:
    """
    The last event has it, whatever the request says; without the option it has not.
    """
    forced = ResponseSettings(enable_force_include_usage=True)

    events = await events_of(path, forced, stream_options=asked)
    usual = await events_of(path, ResponseSettings(), stream_options=asked)

    assert events[-1]["usage"]["completion_tokens"] == 2
    assert not any(each.get("usage") for each in usual)


async def test_messages_have_the_role_that_was_chosen() -> None:
    """
    Whole messages and the first event of a stream have it.
    """
    settings = ResponseSettings(response_role="helper")
    made = ServerSettings(responses=settings)
    async with client_of(FakeEngine(("a",)), made) as client:
        answer = await (await client.post(CHAT, json=BODIES[CHAT])).json()

    events = await events_of(CHAT, settings)

    assert answer["choices"][0]["message"]["role"] == "helper"
    assert events[0]["choices"][0]["delta"]["role"] == "helper"
    with pytest.raises(ConfigError, match="response-role"):
        ResponseSettings(response_role="")


@pytest.mark.parametrize(
    ("asked", "expected"), [(None, "token_id:97"), (True, "token_id:97"), (False, "a")]
)
async def test_tokens_are_ids_where_requests_are_silent(
    asked: bool | None, expected: str
) -> None:
    """
    The server's option is the default of the request's field.
    """
    engine = FakeEngine(("a",))
    settings = ResponseSettings(return_tokens_as_token_ids=True)
    fields = {"logprobs": True, "return_tokens_as_token_ids": asked}
    made = ServerSettings(responses=settings)
    async with client_of(engine, made) as client:
        body = {**BODIES[CHAT], **fields}
        answer = await (await client.post(CHAT, json=body)).json()

    (token,) = answer["choices"][0]["logprobs"]["content"]
    assert token["token"] == expected


@pytest.mark.parametrize("prefix", ["", "/llm/v2"])
async def test_paths_may_begin_with_the_root_path(prefix: str) -> None:
    """
    With and without it all paths mean the same, and the description has it.
    """
    app = create_app(FakeEngine(), ServerSettings(root_path="/llm/v2"))
    listening = listen("127.0.0.1", 0)
    root = url(listening) + prefix
    async with sites([(app, listening)]), ClientSession() as session:
        for path in ("/v1/models", "/models", "/v1/models/fake", "/health"):
            answer = await session.get(root + path)
            assert answer.status == 200, path
        described = await (await session.get(f"{root}/openapi.json")).json()
        other = await session.get(f"{url(listening)}/llm/v2x/v1/models")

    assert described["servers"] == [{"url": "/llm/v2"}]
    assert other.status == 404


@pytest.mark.parametrize("path", ["llm", "/", "/llm/", "//a", "/a b", "/a?b"])
def test_a_root_path_that_is_none_is_refused(path: str) -> None:
    """
    It begins with a slash, and does not end with one.
    """
    with pytest.raises(ConfigError, match="root-path"):
        ServerSettings(root_path=path)


MIDDLEWARE = """
from aiohttp import web

@web.middleware
async def marked(request, handler):
    if request.path == "/version":
        raise RuntimeError("broken on purpose")
    response = await handler(request)
    response.headers["X-Marked"] = "yes"
    return response

async def plain(request, handler):
    return await handler(request)
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_middlewares.py").write_text(MIDDLEWARE)
    monkeypatch.chdir(tmp_path)
    return "own_middlewares"


@pytest.mark.parametrize("separator", [":", "."])
async def test_a_middleware_is_around_handlers(own_module: str, separator: str) -> None:
    """
    It sees what the key has let in, and an error of its own is one request's 500.
    """
    made = ServerSettings(
        middleware=(f"{own_module}{separator}marked",), api_key="secret"
    )
    keyed = {"Authorization": "Bearer secret"}
    async with client_of(FakeEngine(), made) as client:
        served = await client.get("/v1/models", headers=keyed)
        failed = await client.get("/version", headers=keyed)
        refused = await client.get("/v1/models")

    assert (served.status, served.headers["X-Marked"]) == (200, "yes")
    assert (failed.status, refused.status) == (500, 401)
    assert "X-Marked" not in refused.headers


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("marked", "'marked' is not module:name"),
        ("no_such_module_x:a", "cannot import 'no_such_module_x:a'"),
        ("aiohttp.web:no_such_name", "cannot import"),
        ("aiohttp.web:middleware", "is no middleware of aiohttp"),
        ("aiohttp.web:Response", "is no middleware of aiohttp"),
        ("own_middlewares:plain", "with the decorator aiohttp.web.middleware"),
    ],
)
@pytest.mark.usefixtures("own_module")
def test_what_is_no_middleware_is_one_sentence(name: str, expected: str) -> None:
    """
    Also in the command, before a model is looked for.
    """
    with pytest.raises(ConfigError, match=expected):
        load_middlewares([name])


async def get_all(root: str, *paths: str) -> None:
    """Asks on one connection, where each request has its line before the next."""
    async with ClientSession(root, connector=TCPConnector(limit=1)) as session:
        for path in paths:
            await (await session.get(path)).read()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (LogSettings(), ["/v1/models", "/version"]),
        (LogSettings(disable_uvicorn_access_log=True), []),
        (LogSettings(disable_access_log_for_endpoints=("/v1/models",)), ["/version"]),
    ],
)
async def test_requests_have_lines_as_wanted(
    settings: LogSettings, expected: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """
    All, none, or not those of some paths; afterwards all again.
    """
    caplog.set_level(logging.INFO, logger="aiohttp.access")
    app = create_app(FakeEngine(), ServerSettings())
    listening = listen("127.0.0.1", 0)
    root = url(listening)
    async with sites([(app, listening)]):
        with access_log(settings):
            await get_all(root, "/v1/models?x=1", "/version", "/health")
        found = [each.args for each in caplog.records if each.name == "aiohttp.access"]
        caplog.clear()
        await get_all(root, "/v1/models", "/health")

    assert [args[1] for args in found if isinstance(args, tuple)] == expected
    assert [each.args for each in caplog.records] == [("GET", "/v1/models", 200)]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ("--middleware=aiohttp.web:Response", "middleware: aiohttp.web:Response is no"),
        ("--ssl-certfile=/no/such/file", "ssl-certfile: cannot read /no/such/file"),
        ("--uds-mode=9", "'9' is not an octal mode such as 660"),
        ("--allow-credentials", "allow-credentials: requires named allowed-origins"),
        ("--allowed-origins=* --allow-credentials", "requires named allowed-origins"),
        ("--host=a:1", "'a:1' is not a host"),
        ("--host=127.0.0.1,", "'' is not a host"),
    ],
)
def test_mistakes_end_the_command_with_one_line(
    argv: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    They are found before the model loads.
    """
    assert main(["serve", "demo", *argv.split()]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert expected in line
