"""Several names of the model, pieces of several tokens, a limit of logprobs."""

import json
from typing import Any

from hookline_server.cli.options.arguments import engine_config, read_arguments
from hookline_server.cli.options.engine import engine_options
from hookline_server.cli.options.server import server_options
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

OPTIONS = [*server_options(), *engine_options()]


def test_the_first_name_is_the_engines_and_the_others_the_servers() -> None:
    """Several words after the flag, the flag repeated, and a model after one name."""
    for argv in (
        ["--port=1", "demo", "--served-model-name", "a", "b", "c", "--seed", "1"],
        ["--served-model-name=a", "--served-model-name=b", "--served-model-name=c"],
    ):
        read = read_arguments(
            "serve", "Serves.", OPTIONS, argv, default_loggers=(), operand="model"
        )
        assert engine_config(read, in_process=False).model.served_name == "a"
        assert read.make("server", ServerSettings).other_names == ("b", "c")
    read = read_arguments(
        "serve",
        "Serves.",
        OPTIONS,
        ["--served-model-name", "a", "folder"],
        default_loggers=(),
        operand="model",
    )
    made = engine_config(read, in_process=False)
    assert (made.model.served_name, made.model.model) == ("a", "folder")
    assert read.make("server", ServerSettings).other_names == ()


async def test_each_name_is_listed_and_answers() -> None:
    """A response has the first name, whichever was asked for."""
    settings = ServerSettings(other_names=("alias", "fake"))
    body = {"prompt": "ab", "model": "alias"}
    async with client_of(FakeEngine(), settings) as client:
        listing = await (await client.get("/v1/models")).json()
        card = await (await client.get("/v1/models/alias")).json()
        answer = await (await client.post("/v1/completions", json=body)).json()
        other = await client.post("/v1/completions", json={**body, "model": "x"})
        told = (await other.json())["error"]["message"]

    assert [each["id"] for each in listing["data"]] == ["fake", "alias"]
    assert card["id"] == "alias"
    assert answer["model"] == "fake"
    assert other.status == 404
    assert "available: 'fake', 'alias'" in told


async def pieces(interval: int, **body: Any) -> list[list[str]]:
    """Returns the texts of each completion's chunks."""
    engine = FakeEngine(script=tuple("abcdefg"))
    settings = ServerSettings(stream_interval=interval)
    given = {"prompt": "x", "stream": True, **body}
    async with client_of(engine, settings) as client:
        response = await client.post("/v1/completions", json=given)
        text = (await response.read()).decode()
    found: dict[int, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line.removeprefix("data: "))["choices"]:
                found.setdefault(choice["index"], []).append(choice["text"])
    return [found[index] for index in sorted(found)]


async def test_tokens_are_sent_together() -> None:
    """The first comes alone, then so many as the interval says, and then the rest."""
    assert await pieces(1) == [list("abcdefg")]
    assert await pieces(3) == [["a", "bcd", "efg"]]
    assert await pieces(100) == [["a", "bcdefg"]]
    for texts in await pieces(4, n=2, prompt=["x", "y"]):
        assert "".join(texts) == "abcdefg"
        assert texts[0] == "a"


async def test_log_probabilities_are_limited() -> None:
    """Up to so many likeliest tokens are returned, more are refused."""
    settings = ServerSettings(max_logprobs=2)
    async with client_of(FakeEngine(), settings) as client:
        for count, status in ((2, 200), (3, 400)):
            body = {"prompt": "x", "logprobs": count}
            answer = await client.post("/v1/completions", json=body)
            assert answer.status == status
        chat = {
            "messages": [{"role": "user", "content": "x"}],
            "logprobs": True,
            "top_logprobs": 3,
        }
        refused = await client.post("/v1/chat/completions", json=chat)
        told = (await refused.json())["error"]["message"]

    assert refused.status == 400
    assert "at most 2 are allowed" in told
