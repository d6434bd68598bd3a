"""Health, models, tokens, version, keys, and what is off unless enabled."""

import pytest
from aiohttp.test_utils import TestClient, TestServer

from hookline.config.extensions import KV_TRANSFER
from hookline.engine.commands import (
    IsSleeping,
    ResetPrefixCache,
    Sleep,
    SleepMode,
    SleepState,
    TellExtensions,
    Told,
    WakeUp,
)
from hookline.exceptions import (
    CommandError,
    CommandTimeoutError,
    EngineDeadError,
)
from hookline.step import SleepLevel
from hookline_metrics.transfer_calls import (
    TierReset,
    TransferAnswer,
    release_command,
    reset_command,
)
from hookline_server.auth.key_ring import KeyRing
from hookline_server.browser_guard import BrowserGuard
from hookline_server.cors import CorsSettings
from hookline_server.loading import create_loading_app
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of


@pytest.mark.parametrize(
    ("state", "live", "ready"),
    [("ready", 200, 200), ("dead", 200, 503), ("draining", 200, 503)],
)
async def test_liveness_and_readiness_differ(state: str, live: int, ready: int) -> None:
    """
    A process that cannot serve is alive, and reports why it is not ready.
    """
    engine = FakeEngine()
    if state == "dead":
        engine.fail("gone")
    engine.is_draining = state == "draining"

    async with client_of(engine) as client:
        alive = await client.get("/health/live")
        answers = [await client.get(path) for path in ("/health", "/health/ready")]
        bodies = [await answer.text() for answer in answers]

    assert alive.status == live
    assert [answer.status for answer in answers] == [ready, ready]
    if state == "dead":
        assert all("gone" in body for body in bodies)


async def test_models_are_listed() -> None:
    """
    The model is listed and can be asked for by name; another cannot.
    """
    async with client_of(FakeEngine()) as client:
        listing = await (await client.get("/v1/models")).json()
        card = await (await client.get("/v1/models/fake")).json()
        other = await client.get("/v1/models/org/other")

    assert listing == {"object": "list", "data": [card]}
    assert card["id"] == "fake"
    assert card["object"] == "model"
    assert card["root"] == "folder/of/fake"
    assert card["max_model_len"] == 64
    assert other.status == 404


async def test_the_load_is_the_number_of_open_prompts() -> None:
    """
    Prompts that are served or wait count, and no others.
    """
    engine = FakeEngine()
    engine.gate.clear()
    engine.free_steps = 1
    body = {"model": "fake", "prompt": ["a", "b"], "stream": True}
    async with client_of(engine) as client:
        idle = await (await client.get("/load")).json()
        async with client.post("/v1/completions", json=body) as stream:
            assert stream.status == 200
            busy = await (await client.get("/load")).json()
            engine.gate.set()
            await stream.read()

    assert (idle, busy) == ({"server_load": 0}, {"server_load": 2})


async def test_text_and_tokens_are_converted_both_ways() -> None:
    """
    `/tokenize` takes a prompt or messages, `/detokenize` gives the text back.
    """
    messages = [{"role": "user", "content": "b"}]
    async with client_of(FakeEngine()) as client:
        prompt = await client.post(
            "/tokenize", json={"prompt": "a", "return_token_strs": True}
        )
        chat = await client.post("/tokenize", json={"messages": messages})
        text = await client.post("/detokenize", json={"tokens": [97, 98]})

        assert await prompt.json() == {
            "count": 2,
            "max_model_len": 64,
            "tokens": [1, 97],
            "token_strs": ["\x01", "a"],
        }
        assert (await chat.json())["tokens"] == [98, 10, 62]
        assert await text.json() == {"prompt": "ab"}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": []}, "messages"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": ["x"]}, "tokens[0]"),
        ("/detokenize", {"tokens": [1, -1]}, "tokens[1]"),
        ("/detokenize", {"tokens": [0x110000]}, "tokens[0]"),
    ],
)
async def test_wrong_tokens_are_refused(
    path: str, body: dict[str, object], param: str
) -> None:
    """
    What cannot be tokenized or detokenized is a 400 that names the field.
    """
    async with client_of(FakeEngine()) as client:
        response = await client.post(path, json=body)

        assert response.status == 400
        assert (await response.json())["error"]["param"] == param


@pytest.mark.parametrize(
    ("path", "header", "status"),
    [
        ("/v1/models", None, 401),
        ("/v1/models", "Bearer wrong", 401),
        ("/v1/models", "Basic secret", 401),
        ("/v1/models", "Bearer sécret", 401),
        ("/v1/models", "Bearer secret", 200),
        ("/v1/models", "bearer secret", 200),
        ("/%761/models", None, 401),
        ("/health", None, 200),
        ("/health/live", None, 200),
        ("/version", None, 401),
        ("/version", "Bearer secret", 200),
        ("/metrics", None, 401),
        ("/metrics", "Bearer secret", 404),
        ("/nowhere", None, 401),
        ("/nowhere", "Bearer secret", 404),
        ("/v1/completions", None, 401),
        ("/v1/completions", "Bearer secret", 405),
    ],
)
async def test_key_guards_everything_but_probes(
    path: str, header: str | None, status: int
) -> None:
    """
    With a key every path asks for it, however it is spelt, and whether it exists.
    """
    headers = {} if header is None else {"Authorization": header}
    settings = ServerSettings(api_key="secret")

    async with client_of(FakeEngine(), settings) as client:
        response = await client.get(path, headers=headers)

    assert response.status == status


async def test_prefix_cache_can_be_reset_only_where_enabled() -> None:
    """
    `/reset_prefix_cache` does not exist unless it was enabled.
    """
    engine = FakeEngine()
    async with client_of(engine) as client:
        off = await client.post("/reset_prefix_cache")
    settings = ServerSettings(enable_reset_prefix_cache=True)
    async with client_of(engine, settings) as client:
        on = await client.post("/reset_prefix_cache")

        answer = await on.json()

    assert (off.status, on.status) == (404, 200)
    assert answer == {"status": "reset", "success": True, "tiers": {"device": "reset"}}
    [command] = engine.commands
    assert isinstance(command, ResetPrefixCache)


@pytest.mark.parametrize(
    ("query", "running", "external"),
    [
        ("", False, None),
        ("?reset_external=true", False, True),
        ("?reset_external=False&reset_running_requests=1", True, False),
    ],
)
async def test_reset_tells_the_engine_what_to_drop(
    query: str, *, running: bool, external: bool | None
) -> None:
    """
    vLLM's parameters go on; several engines' tiers are told together, at their worst.
    """
    engine = FakeEngine()
    tiers = {"cpu": TierReset.RESET, "disk": TierReset.FAILED}
    engine.replies[ResetPrefixCache] = Told({KV_TRANSFER: TransferAnswer(tiers=tiers)})
    settings = ServerSettings(enable_reset_prefix_cache=True)
    async with client_of(engine, settings) as client:
        response = await client.post(f"/reset_prefix_cache{query}")
        answer = await response.json()

    assert answer["success"] is False
    assert answer["tiers"] == {"device": "reset", "cpu": "reset", "disk": "failed"}
    expected = reset_command(reset_running_requests=running, external=external)
    assert engine.commands == [expected]


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("reset_extrenal=true", "reset_extrenal"),
        ("tags=weights", "tags"),
        ("reset_external=maybe", "reset_external"),
        ("reset_running_requests=", "reset_running_requests"),
        ("reset_running_requests=null", "reset_running_requests"),
    ],
)
async def test_wrong_reset_is_refused(query: str, param: str) -> None:
    """
    An unknown parameter, or a wrong value, is a 400 that names it; nothing is dropped.
    """
    engine = FakeEngine()
    settings = ServerSettings(enable_reset_prefix_cache=True)
    async with client_of(engine, settings) as client:
        response = await client.post(f"/reset_prefix_cache?{query}")
        error = (await response.json())["error"]

    assert (response.status, error["param"]) == (400, param)
    assert not engine.commands


async def test_transfer_is_released() -> None:
    """
    The answer has the number of blocks; a server without a connector has none to free.
    """
    engine = FakeEngine()
    engine.replies[TellExtensions] = Told()
    async with client_of(engine) as client:
        none = await client.delete("/v1/kv_transfers/a")
        answer = TransferAnswer(released_blocks=3)
        engine.replies[TellExtensions] = Told({KV_TRANSFER: answer})
        some = await client.delete("/v1/kv_transfers/a")
        told = await some.json()

    assert (none.status, some.status) == (404, 200)
    assert told == {"id": "a", "released_blocks": 3}
    assert engine.commands == [release_command("a")] * 2


async def test_prompt_that_its_decoder_cannot_take_is_refused() -> None:
    """
    The limit of the instance that continues the prompt counts before it is computed.
    """
    engine = FakeEngine()
    body = {"model": "fake", "prompt": [1] * 8, "max_tokens": 1}
    async with client_of(engine) as client:
        statuses = []
        for length in (8, 9, "8", 0, None):
            params = {"do_remote_decode": True, "remote_max_model_len": length}
            asked = {**body, "kv_transfer_params": params}
            statuses.append((await client.post("/v1/completions", json=asked)).status)

    assert statuses == [400, 200, 200, 200, 200]


async def test_version_is_shown() -> None:
    """
    `/version` returns a version.
    """
    async with client_of(FakeEngine()) as client:
        answer = await (await client.get("/version")).json()

    assert answer["version"][0].isdigit()


async def test_loading_server_is_alive_and_not_ready() -> None:
    """
    While the model loads only liveness is well, and no connection is kept.
    """
    async with TestClient(
        TestServer(
            create_loading_app(KeyRing(), BrowserGuard(("127.0.0.1",), CorsSettings()))
        )
    ) as client:
        live = await client.get("/health/live")
        ready = await client.get("/health/ready")
        asked = await client.post("/v1/completions", json={})

        assert [live.status, ready.status, asked.status] == [200, 503, 503]
        assert (await asked.json())["error"]["code"] == "loading"
        assert live.headers["Connection"] == "close"


async def test_sleep_exists_only_where_enabled() -> None:
    """
    `/sleep`, `/wake_up` and `/is_sleeping` send one command each, if enabled at all.
    """
    engine = FakeEngine()
    awake, asleep = SleepState(None), SleepState(SleepLevel.WEIGHTS)
    engine.replies |= {Sleep: asleep, WakeUp: awake, IsSleeping: asleep}
    async with client_of(engine) as client:
        off = [
            (await client.post("/sleep")).status,
            (await client.post("/wake_up")).status,
            (await client.get("/is_sleeping")).status,
        ]
    async with client_of(engine, ServerSettings(enable_sleep_mode=True)) as client:
        on = [
            await (await client.post("/sleep?level=2&mode=wait")).json(),
            await (await client.post("/sleep")).json(),
            await (await client.get("/is_sleeping")).json(),
            await (await client.post("/wake_up")).json(),
        ]

    assert off == [404, 404, 404]
    assert on == [{"is_sleeping": True, "level": 2}] * 3 + [
        {"is_sleeping": False, "level": 0}
    ]
    assert engine.commands == [
        Sleep(SleepLevel.WEIGHTS, SleepMode.WAIT),
        Sleep(SleepLevel.KV_CACHE, SleepMode.KEEP),
        IsSleeping(),
        WakeUp(),
    ]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (CommandError("Sleep", "not now"), 409, "command_refused"),
        (CommandTimeoutError("Sleep", 60.0), 504, "command_timeout"),
        (EngineDeadError("it broke"), 503, "engine_unavailable"),
    ],
)
async def test_errors_of_commands_have_a_status(
    error: Exception, status: int, code: str
) -> None:
    """
    A refusal, a late reply and a death are three different answers.
    """
    engine = FakeEngine()
    engine.replies[Sleep] = error
    async with client_of(engine, ServerSettings(enable_sleep_mode=True)) as client:
        response = await client.post("/sleep")
        body = await response.json()

    assert (response.status, body["error"]["code"]) == (status, code)
    assert body["error"]["message"] == str(error)
