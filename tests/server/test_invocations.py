"""`/invocations`, `/ping` and `/tokenizer_info`, by the names of other servers."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from hookline.tokenizer import Tokenizer
from hookline_pooling.facts import PoolingFacts
from hookline_pooling.pooling import PoolingType
from hookline_server.settings import ServerSettings
from hookline_server.texts.tokenizer_info import tokenizer_info
from hookline_testing.byte_tokenizer import save_byte_tokenizer
from hookline_testing.scripted_server import FACTS, FakeEngine, client_of

EMBEDS = PoolingFacts(
    kind=PoolingType.LAST, normalize=True, hidden_size=8, is_matryoshka=True
)
PATH = "/invocations"
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4},
    ),
    "completions": ("/v1/completions", {"prompt": "ab", "n": 2}),
    "embeddings": ("/v1/embeddings", {"input": ["ab", "c"]}),
    "pooling": ("/pooling", {"input": "ab", "task": "token_embed"}),
}


def engine_of() -> FakeEngine:
    engine = FakeEngine()
    engine.facts = dataclasses.replace(FACTS, sections={"pooling": EMBEDS})
    return engine


@pytest.mark.parametrize("name", BODIES)
async def test_a_body_is_handled_by_its_endpoint(name: str) -> None:
    """
    The response is the same, but for ids and times.
    """
    path, body = BODIES[name]
    answers = []
    for each in (PATH, path):
        async with client_of(engine_of()) as client:
            response = await client.post(
                each, json=body, headers={"X-Request-Id": "r1"}
            )
            answers.append(await response.json())
            assert response.status == 200, answers

    first, second = ({**each, "created": 0} for each in answers)
    assert first == second


async def test_streams_are_streams() -> None:
    """
    With the end that OpenAI's clients expect.
    """
    _, body = BODIES["chat"]
    async with client_of(FakeEngine()) as client:
        response = await client.post(PATH, json={**body, "stream": True})
        text = await response.text()

    assert response.content_type == "text/event-stream"
    assert text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("body", [{}, {"text": "ab"}, [], "x"])
async def test_other_bodies_are_refused(body: object) -> None:
    """
    Once, and the observers hear of it.
    """
    engine = FakeEngine()
    async with client_of(engine) as client:
        response = await client.post(PATH, data=json.dumps(body))
        error = (await response.json())["error"]

    assert response.status == 400
    assert len(engine.rejected) == 1
    if isinstance(body, dict):
        assert "messages, prompt, task, input" in error["message"]


async def test_wrong_fields_are_counted_once() -> None:
    """
    The body is read twice, which no metric shows.
    """
    engine = FakeEngine()
    _, body = BODIES["completions"]
    async with client_of(engine) as client:
        response = await client.post(PATH, json={**body, "strange": 1})
        wrong = await client.post(PATH, json={**body, "n": -1})

    assert (response.status, wrong.status) == (200, 400)
    assert len(engine.rejected) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_ping_takes_both_methods(method: str) -> None:
    """
    It says what `/health` says.
    """
    engine = FakeEngine()
    async with client_of(engine) as client:
        healthy = await client.request(method, "/ping")
        engine.fail("gone")
        failed = await client.request(method, "/ping")

    assert (healthy.status, failed.status) == (200, 503)


async def test_the_tokenizer_is_told_by_option() -> None:
    """
    Otherwise the path does not exist.
    """
    settings = ServerSettings(enable_tokenizer_info_endpoint=True)
    async with client_of(FakeEngine()) as client:
        hidden = await client.get("/tokenizer_info")
    async with client_of(FakeEngine(), settings) as client:
        shown = await client.get("/tokenizer_info")
        shown_body = await shown.json()

    assert (hidden.status, shown.status) == (404, 200)
    assert shown_body == {"tokenizer_class": "Characters"}


def test_configuration_of_a_tokenizer_is_json(tmp_path: Path) -> None:
    """
    It has the template, the tokens as strings, and no path of this machine.
    """
    save_byte_tokenizer(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    config = tmp_path / "tokenizer_config.json"
    known = json.loads(config.read_text()) if config.exists() else {}
    end = {"__type": "AddedToken", "content": "<end>", "special": True}
    extra = {"model_max_length": 10**30, "more": [1, {"a": None}], "eos_token": end}
    config.write_text(json.dumps({**known, **extra}))

    info = tokenizer_info(Tokenizer.load(tmp_path))

    text = json.dumps(info)
    assert str(tmp_path) not in text
    assert info["chat_template"] == "{{ messages }}"
    assert info["model_max_length"] == 1e30
    assert info["more"] == [1, {"a": None}]
    assert info["eos_token"] == end["content"]
    assert str(info["tokenizer_class"])
