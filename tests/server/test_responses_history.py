"""Items of a conversation's history, of every type that clients send."""

from typing import Any

import pytest

from hookline_server.protocol.ignored import UNSEEN
from hookline_server.replies.settings import ReplySettings
from hookline_server.settings import ServerSettings
from hookline_testing.response_exchange import Exchange, exchanged

SETTINGS = ServerSettings(
    replies=ReplySettings(tool_call_parser="hermes", reasoning_parser="qwen3")
)
USER = {"role": "user", "content": "Hi"}
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "x"}
TEXT = {"type": "input_text", "text": "seen"}
SAID = {
    "type": "message",
    "role": "assistant",
    "id": "x" * 700,
    "status": None,
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "So.", "annotations": []}],
}
SKIPPED: tuple[dict[str, Any], ...] = (
    {"type": "web_search_call", "id": "ws_1", "action": {"type": "search"}},
    {"type": "file_search_call", "queries": ["q"], "results": None},
    {"type": "code_interpreter_call", "code": "1", "outputs": [{"type": "logs"}]},
    {"type": "computer_call", "call_id": "c", "action": {"type": "click"}},
    {"type": "computer_call_output", "call_id": "c", "output": {"type": "x"}},
    {"type": "image_generation_call", "result": "AA", "status": "completed"},
    {"type": "mcp_list_tools", "server_label": "m", "tools": [{"name": 1}]},
    {"type": "mcp_approval_request", "arguments": {}, "name": "n"},
    {"type": "mcp_approval_response", "approve": True},
    {"type": "mcp_call", "arguments": "{}", "output": None, "error": {"a": 1}},
    {"type": "compaction", "encrypted_content": "gAAAA"},
    {"type": "context_compaction"},
    {"type": "configuration_update", "reasoning": {"effort": "low"}},
    {"type": "ghost_snapshot", "ghost_commit": {"id": "a"}},
    {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"},
    {"type": "something_of_next_year", "content": {"a": 1}, "role": 5, "id": 5},
)
CALLS: tuple[tuple[dict[str, Any], str, object], ...] = (
    (
        {"type": "custom_tool_call", "name": "apply_patch", "input": "***"},
        "apply_patch",
        {"input": "***"},
    ),
    (
        {"type": "custom_tool_call", "name": "g", "namespace": "n", "input": ""},
        "n__g",
        {"input": ""},
    ),
    (
        {"type": "function_call", "name": "g", "namespace": "mcp__x", "arguments": ""},
        "mcp__x__g",
        {},
    ),
    (
        {"type": "function_call", "name": "g", "namespace": "g", "arguments": "{}"},
        "g",
        {},
    ),
    (
        {"type": "function_call", "name": "g", "arguments": '{"city": '},
        "g",
        {},
    ),
    (
        {
            "type": "local_shell_call",
            "status": "completed",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
        },
        "local_shell",
        {"type": "exec", "command": ["ls"], "env": {}},
    ),
    (
        {"type": "shell_call", "action": {"commands": ["ls"]}},
        "shell",
        {"commands": ["ls"]},
    ),
    (
        {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}},
        "apply_patch",
        {"type": "delete_file", "path": "a"},
    ),
    (
        {"type": "tool_search_call", "execution": "client", "arguments": {"q": 1}},
        "tool_search",
        {"q": 1},
    ),
)
RESULTS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"type": "function_call_output", "output": "a"}, "a"),
    (
        {"type": "function_call_output", "output": [TEXT, IMAGE]},
        f"seen\n{UNSEEN.format('input_image')}",
    ),
    ({"type": "function_call_output", "output": {"ok": True}}, '{"ok":true}'),
    ({"type": "function_call_output", "output": []}, ""),
    ({"type": "function_call_output", "output": ["a", 1]}, '["a",1]'),
    ({"type": "custom_tool_call_output", "name": "g", "output": "a"}, "a"),
    ({"type": "custom_tool_call_output", "output": [TEXT]}, "seen"),
    ({"type": "local_shell_call_output", "output": "a"}, "a"),
    (
        {"type": "shell_call_output", "output": [{"stdout": "a", "stderr": ""}]},
        '[{"stdout":"a","stderr":""}]',
    ),
    ({"type": "apply_patch_call_output", "status": "failed"}, "failed"),
    ({"type": "apply_patch_call_output", "status": "failed", "output": "a"}, "a"),
    ({"type": "tool_search_output", "tools": []}, "Found: "),
    ({"type": "function_call_output", "output": None}, ""),
)


async def ask(*items: object, **fields: Any) -> Exchange:
    got = await exchanged({"input": [*items], **fields}, "Hello", settings=SETTINGS)
    assert got.status == 200, got.answer
    return got


async def test_items_of_other_servers_are_left_out() -> None:
    """
    Each within a conversation that goes on as if it were not there.
    """
    faults = []
    for item in SKIPPED:
        got = await ask(USER, item, SAID, USER)
        roles = [each["role"] for each in got.messages]
        kinds = [f"item.{item['type']}"]
        if (roles, got.ignored) != (["user", "assistant", "user"], kinds):
            faults.append((item, roles, got.ignored))

    assert not faults


async def test_calls_that_the_client_has_run() -> None:
    """
    The model knows each as a call of a function, whose arguments are an object.
    """
    for item, name, arguments in CALLS:
        got = await ask(USER, {**item, "call_id": "c"}, USER)

        [call] = got.messages[1]["tool_calls"]
        expected = {"name": name, "arguments": arguments}
        assert call == {"id": "c", "type": "function", "function": expected}, item


async def test_results_of_calls() -> None:
    """
    Whatever their form, the model gets their text; one without an id follows its call.
    """
    call = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}
    for item, text in RESULTS:
        got = await ask(USER, call, {**item, "call_id": "c"})

        assert got.messages[2] == {
            "role": "tool",
            "content": text,
            "tool_call_id": "c",
        }, item
    for ids in ({}, {"id": "fco_1"}):
        got = await ask(USER, call, {**RESULTS[0][0], **ids})
        assert got.messages[2]["tool_call_id"] == "c"
    lonely = {**RESULTS[7][0], "id": "c"}
    assert (await ask(USER, lonely)).messages[1]["tool_call_id"] == "c"


async def test_a_result_whose_call_is_missing() -> None:
    """
    Its text stays: a client may have shortened the conversation.
    """
    result = {"type": "custom_tool_call_output", "call_id": "call|a", "output": "a"}

    got = await ask(USER, result)

    assert got.messages[1]["content"] == "a"


async def test_images_and_files() -> None:
    """
    One that a user now asks about is refused. The same one of an earlier turn, which
    clients send again with each turn, is a note.
    """
    content = [{"type": "input_text", "text": "What is it?"}, IMAGE]
    asked = {"role": "user", "content": content}

    refused = await exchanged({"input": [USER, asked]}, "", settings=SETTINGS)
    later = await ask(asked, SAID, USER)
    after_a_result = await ask(asked, {**CALLS[0][0], "call_id": "c"}, RESULTS[2][0])

    assert (refused.status, refused.answer["error"]["param"]) == (
        400,
        "input[1].content[1]",
    )
    for got in (later, after_a_result):
        note = f"What is it?\n{UNSEEN.format('input_image')}"
        assert got.messages[0]["content"] == note
        assert got.ignored == ["part.input_image"]


@pytest.mark.parametrize(
    ("content", "text", "ignored"),
    [
        ([{"type": "text", "text": "a"}, TEXT], "a\nseen", []),
        (
            [{"type": "encrypted_content", "encrypted_content": "g"}, TEXT],
            "seen",
            ["part.encrypted_content"],
        ),
        ([], "", []),
    ],
)
async def test_parts_of_other_types(content: Any, text: str, ignored: Any) -> None:
    """
    What has a text is text; what the server cannot read is left out.
    """
    got = await ask({"role": "developer", "content": content}, USER)

    assert got.messages[0] == {"role": "system", "content": text}
    assert got.ignored == ignored


async def test_messages_of_other_agents() -> None:
    """
    The model reads who has sent them.
    """
    message = {"type": "agent_message", "author": "scout", "recipient": "root"}

    got = await ask({**message, "content": [TEXT]})

    assert got.messages == [{"role": "user", "content": "scout: seen"}]


async def test_reasoning_comes_back_as_encrypted_content() -> None:
    """
    Codex sends nothing else of it; what the server stores needs it not.
    """
    fields: dict[str, Any] = {"include": ["reasoning.encrypted_content"]}
    script = ("<think>\nHm, é.\n</think>\n\n", "Hello")
    for is_streamed in (False, True):
        got = await exchanged(
            {**fields, "stream": is_streamed}, *script, settings=SETTINGS
        )
        reasoning, message = got.output
        del reasoning["content"]

        later = await ask(USER, reasoning, message, USER)

        assert later.messages[1]["reasoning_content"] == "Hm, é."
        assert later.ignored == []
    without = await exchanged({}, *script, settings=SETTINGS)
    assert "encrypted_content" not in without.output[0]


async def test_unknown_values_that_change_nothing() -> None:
    """
    The newest client sends more than the documentation lists.
    """
    got = await ask(
        USER,
        include=["next.year", "reasoning.encrypted_content"],
        text={"verbosity": "terse", "next": 1},
        reasoning={"effort": "low", "summary": "none", "context": "all_turns"},
        client_metadata={"session_id": "s"},
        prompt_cache_key="k",
        prompt_cache_retention="24h",
        context_management=[{"type": "compaction"}],
        service_tier="ultrafast",
        store=False,
    )

    assert got.answer["text"]["verbosity"] == "terse"
    assert got.answer["reasoning"] == {"effort": "low", "summary": "none"}
    assert "field.include" in got.ignored
