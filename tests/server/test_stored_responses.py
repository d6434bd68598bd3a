"""Responses that continue earlier ones, and what can be asked of stored ones."""

import dataclasses
import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from aiohttp.web import Application, Request

from hookline.request import FinishReason
from hookline.request_limits import HISTORY_BYTES
from hookline_server.auth.key_file import key_file
from hookline_server.context import RESPONSE_STORE
from hookline_server.replies.settings import ReplySettings
from hookline_server.response_store import StoredResponse
from hookline_server.response_store_settings import ResponseStoreSettings
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

Client = TestClient[Request, Application]

PATH = "/v1/responses"
PARSERS = ReplySettings(tool_call_parser="hermes", reasoning_parser="qwen3")
SETTINGS = ServerSettings(replies=PARSERS)
TOOLS = [{"type": "function", "name": "f"}]
SCRIPT = (
    "<think>\nHm.\n</think>\n\nI look.",
    '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>',
)


def engine_of(*script: str) -> FakeEngine:
    engine = FakeEngine(script or ("Hello",), finish_reason=FinishReason.STOP)
    engine.facts = dataclasses.replace(
        engine.facts, model=dataclasses.replace(engine.facts.model, max_model_len=4096)
    )
    return engine


def served(
    engine: FakeEngine, settings: ServerSettings = SETTINGS
) -> AbstractAsyncContextManager[Client]:
    return client_of(engine, settings)


async def ask(
    client: Client, status: int = 200, *, key: str | None = None, **fields: Any
) -> Any:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    body = {"input": "Hi", **fields}
    response = await client.post(PATH, json=body, headers=headers)
    answer = await response.json()
    assert response.status == status, answer
    return answer


async def got(
    client: Client, path: str, status: int = 200, *, method: str = "GET", key: str = ""
) -> Any:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    response = await client.request(method, f"{PATH}/{path}", headers=headers)
    answer = await response.json()
    assert response.status == status, answer
    return answer


async def test_a_response_continues_another() -> None:
    """
    Its prompt has the earlier input and output, but not the earlier instructions.
    """
    engine = engine_of(*SCRIPT)
    async with served(engine) as client:
        first = await ask(client, instructions="Rhyme.", tools=TOOLS)
        call = first["output"][-1]
        result = {"type": "function_call_output", "call_id": call["call_id"]}
        second = await ask(
            client,
            input=[{**result, "output": "rain"}],
            previous_response_id=first["id"],
            tools=TOOLS,
        )
        await ask(
            client,
            input="And?",
            previous_response_id=second["id"],
            instructions="Be brief.",
        )

    def turn(response: Any) -> dict[str, object]:
        return {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "Hm.",
            "reasoning": "Hm.",
            "tool_calls": [
                {
                    "id": response["output"][-1]["call_id"],
                    "type": "function",
                    "function": {"name": "f", "arguments": {"a": 1}},
                }
            ],
        }

    assert engine.chats[1] == [
        {"role": "user", "content": "Hi"},
        turn(first),
        {"role": "tool", "content": "rain", "tool_call_id": call["call_id"]},
    ]
    assert engine.chats[2] == [
        {"role": "system", "content": "Be brief."},
        *engine.chats[1],
        turn(second),
        {"role": "user", "content": "And?"},
    ]
    assert second["previous_response_id"] == first["id"]


async def test_a_stored_call_of_a_custom_tool_is_continued() -> None:
    """
    It is a call of the same function as before, and its result is an item, too.
    """
    call = '<tool_call>{"name": "n__g", "arguments": {"input": "x"}}</tool_call>'
    engine = engine_of(call)
    tool = {"type": "custom", "name": "g"}
    space = {"type": "namespace", "name": "n", "tools": [tool]}
    async with served(engine) as client:
        first = await ask(client, tools=[space])
        [called] = first["output"]
        result = {"type": "custom_tool_call_output", "call_id": called["call_id"]}
        second = await ask(
            client,
            input=[{**result, "output": "done"}],
            previous_response_id=first["id"],
            tools=[space],
        )
        items = await got(client, f"{second['id']}/input_items?order=asc")

    _, said, answer = engine.chats[1]
    calls: Any = said["tool_calls"]
    [function] = [each["function"] for each in calls]
    assert function == {"name": "n__g", "arguments": {"input": "x"}}
    assert answer["content"] == "done"
    kinds = ["message", "custom_tool_call", "custom_tool_call_output"]
    assert [each["type"] for each in items["data"]] == kinds
    assert items["data"][1]["namespace"] == "n"


async def test_a_response_can_be_continued_without_input() -> None:
    """
    The model takes another turn.
    """
    engine = engine_of()
    async with served(engine) as client:
        first = await ask(client)
        await ask(client, input=None, previous_response_id=first["id"])

    assert [each["role"] for each in engine.chats[1]] == ["user", "assistant"]


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_stored_response_is_read(is_streamed: bool) -> None:
    """
    It is what the client got, whole or at the end of a stream.
    """
    async with served(engine_of(*SCRIPT)) as client:
        body = {"input": "Hi", "tools": TOOLS, "stream": is_streamed}
        text = await (await client.post(PATH, json=body)).text()
        if is_streamed:
            *_, data = text.removesuffix("\n\n").split("data: ")
            expected = json.loads(data)["response"]
        else:
            expected = json.loads(text)

        assert await got(client, expected["id"]) == expected
        assert await got(client, f"{expected['id']}?include=x") == expected
        error = await got(client, f"{expected['id']}?stream=true", 400)
        assert error["error"]["param"] == "stream"


async def test_a_deleted_response_is_gone() -> None:
    """
    It can be neither read nor continued, and neither can what continues it.
    """
    async with served(engine_of()) as client:
        first = await ask(client)
        second = await ask(client, previous_response_id=first["id"])
        deleted = await got(client, first["id"], method="DELETE")
        await got(client, first["id"], 404)
        await got(client, first["id"], 404, method="DELETE")
        errors = [
            (await ask(client, 400, previous_response_id=each["id"]))["error"]
            for each in (first, second)
        ]
        assert (await got(client, second["id"]))["id"] == second["id"]

    assert deleted == {"id": first["id"], "object": "response", "deleted": True}
    assert [each["code"] for each in errors] == ["previous_response_not_found"] * 2
    assert {each["param"] for each in errors} == {"previous_response_id"}
    assert first["id"] in errors[0]["message"]


async def test_store_false_keeps_nothing() -> None:
    """
    Nor does an unfinished request.
    """
    async with served(engine_of()) as client:
        response = await ask(client, store=False)
        await got(client, response["id"], 404)

        assert response["store"] is False
        assert client.app is not None
        assert client.app[RESPONSE_STORE].stats().entries == 0


async def test_a_server_that_keeps_nothing() -> None:
    """
    Its responses say so, and its error tells what to do.
    """
    settings = ServerSettings(
        response_store=ResponseStoreSettings(max_stored_responses=0)
    )
    async with served(engine_of(), settings) as client:
        response = await ask(client, store=True)
        error = await ask(client, 400, previous_response_id=response["id"])

    assert response["store"] is False
    assert "send the whole input" in error["error"]["message"]


async def test_a_response_cannot_be_cancelled() -> None:
    """
    It is over, as none runs in the background; an unknown one is a 404.
    """
    async with served(engine_of()) as client:
        response = await ask(client)
        error = await got(client, f"{response['id']}/cancel", 400, method="POST")
        await got(client, "resp_x/cancel", 404, method="POST")

    assert "Cannot cancel a synchronous response" in error["error"]["message"]


async def test_input_items_are_listed() -> None:
    """
    Those of the responses that it continues, too, the last ones first, by pages.
    """
    result = {"type": "function_call_output", "call_id": "c", "output": "rain"}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    reasoning = {"type": "reasoning", "id": "rs_own", "summary": []}
    said = {"role": "assistant", "content": "So."}
    async with served(engine_of()) as client:
        first = await ask(client, input=[said, reasoning, call, result])
        second = await ask(client, previous_response_id=first["id"])
        path = f"{second['id']}/input_items"
        pages = [await got(client, f"{path}?limit=2&order=asc")]
        while pages[-1]["has_more"]:
            query = f"limit=2&order=asc&after={pages[-1]['last_id']}"
            pages.append(await got(client, f"{path}?{query}"))
        backwards = await got(client, path)

    items = [item for page in pages for item in page["data"]]
    assert [page["first_id"] for page in pages] == [items[at]["id"] for at in (0, 2, 4)]
    assert backwards["data"] == items[::-1]
    ids = [item.pop("id") for item in items]
    assert len(set(ids)) == 6
    assert ids[1] == "rs_own"
    text = {"type": "output_text", "annotations": [], "logprobs": []}
    assert items == [
        {
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{**text, "text": "So."}],
        },
        {"type": "reasoning", "summary": []},
        {**call, "status": "completed"},
        {**result, "status": "completed"},
        {
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{**text, "text": "Hello"}],
        },
        {
            "type": "message",
            "role": "user",
            "status": "completed",
            "content": [{"type": "input_text", "text": "Hi"}],
        },
    ]


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=x", "limit"),
        ("order=up", "order"),
        ("after=msg_x", "after"),
    ],
)
async def test_wrong_pages(query: str, param: str) -> None:
    """
    Each is a 400 that names the parameter.
    """
    async with served(engine_of()) as client:
        response = await ask(client)
        error = await got(client, f"{response['id']}/input_items?{query}", 400)

    assert error["error"]["param"] == param


async def test_items_can_be_named() -> None:
    """
    A reference is replaced by the stored item; an unknown one is a 404.
    """
    engine = engine_of(*SCRIPT)
    async with served(engine) as client:
        first = await ask(client, tools=TOOLS)
        references: list[dict[str, str]] = [
            {"type": "item_reference", "id": each["id"]} for each in first["output"]
        ]
        references[0].pop("type")
        new = {"role": "user", "content": "And?"}
        second = await ask(client, input=[*references, new], store=False)
        error = await ask(client, 404, input=[new, {"id": "msg_x"}])
        missing = await ask(client, 400, input=[{"type": "item_reference"}])

    assert [each["role"] for each in engine.chats[1]] == ["assistant", "user"]
    assert engine.chats[1][0]["content"] == "I look."
    assert engine.chats[1][0]["reasoning"] == "Hm."
    assert second["status"] == "completed"
    assert error["error"]["param"] == "input[1]"
    assert missing["error"]["message"] == "input[0].type is missing"


async def test_keys_do_not_see_the_responses_of_others(tmp_path: Path) -> None:
    """
    To another key, and to another tenant of the same, a response does not exist.
    """
    file = tmp_path / "keys.yaml"
    file.write_text(
        "keys:\n- {key: key-of-alice, name: alice}\n- {key: key-of-bob, name: bob}\n"
    )
    settings = ServerSettings(api_keys=key_file(str(file)), tenant_header="X-Tenant")
    engine = engine_of()
    async with served(engine, settings) as client:
        response = await ask(client, key="key-of-alice")
        name = response["id"]
        message = {"type": "item_reference", "id": response["output"][0]["id"]}
        await got(client, name, key="key-of-alice")
        for path in (name, f"{name}/input_items"):
            await got(client, path, 404, key="key-of-bob")
        await got(client, name, 404, method="DELETE", key="key-of-bob")
        await ask(client, 400, key="key-of-bob", previous_response_id=name)
        await ask(client, 404, key="key-of-bob", input=[message])
        headers = {"Authorization": "Bearer key-of-alice", "X-Tenant": "other"}
        other = await client.get(f"{PATH}/{name}", headers=headers)
        await got(client, name, 401)
        await got(client, name, key="key-of-alice")

    assert other.status == 404


async def test_histories_are_limited() -> None:
    """
    As if the client had sent them, whether by response or by item.
    """
    text = "x" * (HISTORY_BYTES.most // 2)
    async with served(engine_of()) as client:
        assert client.app is not None
        for number in range(2):
            client.app[RESPONSE_STORE].keep(
                StoredResponse(
                    id=f"resp_{number}",
                    owner=("", ""),
                    payer="",
                    previous_id="resp_0" if number else None,
                    response=b"{}",
                    input=json.dumps(
                        [{"id": f"msg_{number}", "role": "user", "content": text}]
                    ).encode(),
                    output=b"[]",
                    item_ids=(f"msg_{number}",),
                )
            )
        references = [{"id": f"msg_{number}"} for number in range(2)]
        errors = [
            (await ask(client, 400, previous_response_id="resp_1"))["error"],
            (await ask(client, 400, input=references))["error"],
        ]

    assert [each["code"] for each in errors] == ["limit_exceeded"] * 2
    assert [each["param"] for each in errors] == ["previous_response_id", "input"]
