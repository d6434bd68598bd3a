"""What clients get over HTTP is, byte by byte, what they got.

The simulated executor answers through the whole server: real tokenizer, real scheduler,
one token a step. Each step waits until the one before it has reached the client, so
that no two share an event. Times and ids are masked. Run this file with
`HOOKLINE_UPDATE_GOLDEN=1` to accept new transcripts.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request

from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ModelConfig,
    ObserverConfig,
)
from hookline_demo_model import folder
from hookline_server.app import create_app
from hookline_server.settings import ServerSettings
from hookline_server.texts.engine import TextEngine
from hookline_simulated.config import SimulationConfig
from hookline_testing.golden import check_golden
from hookline_testing.paced_client import paced_connect

Client = TestClient[Request, Application]

GOLDEN = Path(__file__).parent / "golden/http"
INSTANT = SimulationConfig(
    step_seconds=0.0, prefill_token_seconds=0.0, decode_request_seconds=0.0
)

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Where does the river end?"},
]
TEXT = "The quick brown fox"
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
COMPLETION = {"prompt": TEXT, "max_tokens": 5, "temperature": 0}
MESSAGE = {"model": "demo", "messages": CHAT[1:], "max_tokens": 4, "temperature": 0}
RESPONSE = {"model": "demo", "input": "Hello", "max_output_tokens": 4}
POSTS: dict[str, tuple[str, dict[str, object]]] = {
    "completion": ("/v1/completions", COMPLETION),
    "completion_streamed": ("/v1/completions", {**COMPLETION, **STREAMED}),
    "completion_choices": (
        "/v1/completions",
        {**COMPLETION, "n": 2, "logprobs": 2, "echo": True, "seed": 3},
    ),
    "completion_tokens_streamed": (
        "/v1/completions",
        {**COMPLETION, "stream": True, "return_token_ids": True, "logprobs": 1},
    ),
    "completion_stopped": ("/v1/completions", {**COMPLETION, "stop": ["e", "a", " "]}),
    "completion_two_prompts": ("/v1/completions", {**COMPLETION, "prompt": ["a", "b"]}),
    "chat": ("/v1/chat/completions", {"messages": CHAT, "max_tokens": 4}),
    "chat_streamed": (
        "/v1/chat/completions",
        {"messages": CHAT, "max_tokens": 4, **STREAMED},
    ),
    "chat_logprobs": (
        "/v1/chat/completions",
        {"messages": CHAT, "max_tokens": 2, "logprobs": True, "top_logprobs": 2},
    ),
    "chat_choices_streamed": (
        "/v1/chat/completions",
        {"messages": CHAT, "max_tokens": 2, "n": 2, "seed": 5, "stream": True},
    ),
    "message": ("/v1/messages", MESSAGE),
    "message_streamed": ("/v1/messages", {**MESSAGE, "system": "No.", "stream": True}),
    "message_tokens": ("/v1/messages/count_tokens", {"messages": CHAT[1:]}),
    "response": ("/v1/responses", RESPONSE),
    "response_streamed": (
        "/v1/responses",
        {**RESPONSE, "instructions": "Be kind.", "stream": True, "store": False},
    ),
    "tokenize": ("/tokenize", {"prompt": TEXT, "return_token_strs": True}),
    "detokenize": ("/detokenize", {"tokens": [5, 6, 7]}),
    "refused_field": ("/v1/completions", {**COMPLETION, "temperature": -1}),
    "refused_field_streamed": ("/v1/completions", {**COMPLETION, "n": 0, **STREAMED}),
    "refused_model": ("/v1/chat/completions", {"messages": CHAT, "model": "other"}),
    "refused_length": ("/v1/completions", {"prompt": TEXT, "max_tokens": 9999}),
    "refused_message": ("/v1/messages", {"model": "demo", "messages": CHAT[1:]}),
    "refused_response": ("/v1/responses", {**RESPONSE, "input": []}),
    "refused_embedding": ("/v1/embeddings", {"input": "a"}),
}
GETS = {
    "models": "/v1/models",
    "model": "/v1/models/demo",
    "health": "/health",
    "version": "/version",
    "load": "/load",
    "missing_path": "/v1/nothing",
}
MASKS = (
    (r'"(created|created_at|completed_at)":\s*[\d.]+', r'"\1":0'),
    (r"\b(cmpl|chatcmpl|msg|resp|req|modelperm)([-_])[0-9a-f]{8,}[-0-9a-f]*", r"\1\2…"),
    (r"(?m)^(content-length|date|server|x-request-id|request-id): .*$", r"\1: …"),
    (r'"(root|request_id|system_fingerprint)":"[^"]*"', r'"\1":"…"'),
)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A client of a server with the demo's tokenizer and the simulated executor."""
    config = EngineConfig(
        model=ModelConfig(
            model=str(folder()), max_model_len=256, served_model_name="demo"
        ),
        cache=CacheConfig(num_kv_blocks=256, block_size=4),
        executor=ExecutorConfig(name="simulated"),
        observers=ObserverConfig(stat_loggers=()),
        in_process=True,
        sections={"simulated": INSTANT},
    )
    connect = paced_connect(asyncio.get_running_loop())
    engine = await TextEngine.start(config, connect=connect)
    try:
        async with TestClient(TestServer(create_app(engine, ServerSettings()))) as it:
            yield it
    finally:
        await engine.close()


def masked(text: str) -> str:
    for pattern, replacement in MASKS:
        text = re.sub(pattern, replacement, text)
    return text


async def exchange(client: Client, path: str, body: object = None) -> str:
    """A request, and the answer's status, headers and body."""
    method = "GET" if body is None else "POST"
    async with client.request(method, path, json=body) as answer:
        headers = sorted(f"{k.lower()}: {v}" for k, v in answer.headers.items())
        text = await answer.text()
        request = [f"{method} {path}", "" if body is None else json.dumps(body)]
        return "\n".join([*request, "", str(answer.status), *headers, "", text, ""])


async def test_answers_are_golden(client: Client) -> None:
    """Each answer, whole or streamed, is the one in its file."""
    faults = []

    for name, (path, body) in POSTS.items():
        faults += fault(name, await exchange(client, path, body))
    for name, path in GETS.items():
        faults += fault(name, await exchange(client, path))

    assert not faults, "\n\n".join(faults)


def fault(name: str, text: str) -> list[str]:
    try:
        check_golden(GOLDEN / f"{name}.txt", masked(text))
    except AssertionError as error:
        return [str(error)]
    return []


def test_each_golden_file_has_its_request() -> None:
    """No transcript is left of a request that is not made any more."""
    assert {path.stem for path in GOLDEN.iterdir()} == {*POSTS, *GETS}
