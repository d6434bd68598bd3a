"""Tools of `/v1/responses` that are no plain functions: what model and client get."""

import json
from typing import Any

import pytest

from hookline.exceptions import RequestError
from hookline_server.protocol.ignored import Ignored
from hookline_server.protocol.responses_tools import read_tools
from hookline_server.replies.settings import ReplySettings
from hookline_server.settings import ServerSettings
from hookline_testing.response_exchange import Exchange, exchanged, tool_call

PARSERS = ServerSettings(replies=ReplySettings(tool_call_parser="hermes"))
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
FUNCTION = {"type": "function", "name": "f", "parameters": SCHEMA}
GRAMMAR = 'start: "*** Begin Patch" /.+/'
CUSTOM = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR},
}
SPACE = {
    "type": "namespace",
    "name": "mcp__demo",
    "description": "Orders of the shop.",
    "tools": [
        {**FUNCTION, "name": "lookup", "parameters": {**SCHEMA, "required": ["a"]}},
        {**FUNCTION, "name": "cancel"},
    ],
}
SEARCH = {
    "type": "tool_search",
    "execution": "client",
    "description": "Finds tools.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
}
PATCH = '*** Begin Patch\n+say("é\\n") 😀\n*** End Patch'
BUILT_IN: tuple[dict[str, Any], ...] = (
    {"type": "web_search", "filters": None, "search_context_size": "medium"},
    {"type": "web_search_preview_2025_03_11"},
    {"type": "file_search", "vector_store_ids": ["vs_1"]},
    {"type": "code_interpreter", "container": {"type": "auto"}},
    {"type": "computer_use_preview", "environment": "linux", "display_width": 9},
    {"type": "computer"},
    {"type": "image_generation", "output_format": "png"},
    {"type": "mcp", "server_label": "m", "server_url": "https://m", "name": None},
    {"type": "local_shell"},
    {"type": "shell", "environment": {"type": "local"}},
    {"type": "apply_patch"},
    {"type": "tool_search"},
    {"type": "programmatic_tool_calling"},
    {"type": "something_of_next_year", "tools": 1, "format": "x", "name": [1]},
)


async def ask(*script: str, **fields: Any) -> Exchange:
    return await exchanged(fields, *script, settings=PARSERS)


async def test_tools_that_the_server_cannot_run_are_left_out() -> None:
    """
    Each beside a function, which stays; the response names what is missing.
    """
    faults = []
    for tool in BUILT_IN:
        got = await ask(tool_call("f", {"a": "b"}), tools=[tool, FUNCTION])
        kind = tool["type"].removesuffix("_2025_03_11")
        names = [each["name"] for each in got.answer["tools"]]
        found = (got.status, got.tools, names, got.ignored, got.output[0]["type"])
        if found != (200, ["f"], ["f"], [f"tool.{kind}"], "function_call"):
            faults.append((kind, found))

    assert not faults


async def test_only_tools_that_the_server_cannot_run() -> None:
    """
    The model answers without tools, whatever the choice, even on a server without a
    parser of calls.
    """
    built_in = [BUILT_IN[0], BUILT_IN[6]]
    choices: list[Any] = [
        *(None, "auto", "required", "none", {"type": "web_search"}),
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "mcp"}]},
    ]
    for choice in choices:
        fields = {"tools": built_in, "tool_choice": choice}
        got = await exchanged(fields, "Hello", settings=ServerSettings())

        assert (got.status, got.tools) == (200, []), (choice, got.answer)
        assert got.output[0]["content"][0]["text"] == "Hello"
        assert got.ignored[:2] == ["tool.web_search", "tool.image_generation"]
        is_choice_lost = isinstance(choice, dict) or choice == "required"
        assert (got.ignored[2:] == ["field.tool_choice"]) == is_choice_lost


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_custom_tool(is_streamed: bool) -> None:
    """
    The model knows a function of one text and its grammar; the client gets the text.
    """
    call = tool_call("apply_patch", {"input": PATCH})
    script = ("I edit. ", *(call[at : at + 5] for at in range(0, len(call), 5)))

    got = await ask(*script, tools=[CUSTOM], stream=is_streamed)

    function = got.functions["apply_patch"]
    assert "Edits files." in function["description"]
    assert GRAMMAR in function["description"]
    assert function["parameters"]["required"] == ["input"]
    assert got.answer["tools"] == [CUSTOM]
    _, item = got.output
    assert item.pop("id").startswith("ctc_")
    assert item.pop("call_id")
    assert item == {
        "type": "custom_tool_call",
        "name": "apply_patch",
        "input": PATCH,
        "status": "completed",
    }


async def test_events_of_a_custom_tool() -> None:
    """
    Its text arrives decoded, piece by piece, between the events of its item.
    """
    call = tool_call("apply_patch", {"input": PATCH})
    script = [call[at : at + 5] for at in range(0, len(call), 5)]

    got = await ask(*script, tools=[CUSTOM], stream=True)

    events = got.events[2:-1]
    kinds = [each["type"].removeprefix("response.") for each in events]
    assert kinds[0] == "output_item.added"
    assert set(kinds[1:-2]) == {"custom_tool_call_input.delta"}
    assert kinds[-2:] == ["custom_tool_call_input.done", "output_item.done"]
    assert (events[0]["item"]["input"], events[0]["item"]["status"]) == (
        "",
        "in_progress",
    )
    assert len(kinds) > 6
    assert "".join(each["delta"] for each in events[1:-2]) == PATCH
    assert events[-2]["input"] == PATCH == events[-1]["item"]["input"]
    inside = events[1:-1]
    assert {each["item_id"] for each in inside} == {events[-1]["item"]["id"]}
    assert {each["output_index"] for each in inside} == {0}


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_names_of_a_namespace(is_streamed: bool) -> None:
    """
    The model gets a name for all; the client gets both names back, however the model
    has written it.
    """
    written = ("mcp__demo__lookup", "lookup", "mcp__demo.lookup", "f", "functions.f")
    calls = [tool_call(name, {"a": "b"}) for name in written]

    got = await ask(*calls, tools=[FUNCTION, SPACE, CUSTOM], stream=is_streamed)

    assert got.tools == ["f", "mcp__demo__lookup", "mcp__demo__cancel", "apply_patch"]
    descriptions = [each["description"] for each in got.functions.values()]
    assert [each.count("Orders of the shop.") for each in descriptions] == [0, 1, 0, 0]
    names = [(each.get("namespace"), each["name"]) for each in got.output]
    assert names == [("mcp__demo", "lookup")] * 3 + [(None, "f")] * 2
    [_, space, _] = got.answer["tools"]
    assert (space["name"], [each["name"] for each in space["tools"]]) == (
        "mcp__demo",
        ["lookup", "cancel"],
    )


async def test_names_for_the_model() -> None:
    """
    They are those that Codex itself makes, and are valid names of functions.
    """
    expected = {
        "functions": "f",
        "mcp__demo__": "mcp__demo__f",
        "crm": "crm__f",
        "My App!": "My_App_f",
    }
    for namespace, name in expected.items():
        space = {**SPACE, "name": namespace, "tools": [FUNCTION]}
        got = await ask(tool_call(name, {}), tools=[space])

        assert got.tools == [name]
        assert got.output[0]["namespace"] == namespace, name
        assert got.output[0]["name"] == "f"


async def test_a_function_in_the_form_of_chats() -> None:
    """
    Clients that serve both APIs mix them up.
    """
    function = {"name": "f", "parameters": SCHEMA}

    got = await ask("Hello", tools=[{"type": "function", "function": function}])

    assert (got.status, got.functions["f"]["parameters"]) == (200, SCHEMA)


async def test_equal_names_in_two_namespaces() -> None:
    """
    They are different tools; the bare name, which could be either, stays as it is.
    """
    other = {**SPACE, "name": "crm"}
    names = ("mcp__demo__lookup", "crm__lookup", "lookup")
    script = [tool_call(name, {}) for name in names]

    got = await ask(*script, tools=[SPACE, other])

    assert [each.get("namespace") for each in got.output] == ["mcp__demo", "crm", None]


async def test_custom_tools_and_built_in_ones_in_a_namespace() -> None:
    """
    The first are called by both names, the others are left out.
    """
    space = {**SPACE, "tools": [CUSTOM, BUILT_IN[0]]}

    got = await ask(
        tool_call("mcp__demo__apply_patch", {"input": "x"}), tools=[space, FUNCTION]
    )

    [call] = got.output
    assert (call["type"], call["namespace"]) == ("custom_tool_call", "mcp__demo")
    assert (call["name"], call["input"]) == ("apply_patch", "x")
    assert got.ignored == ["tool.web_search"]


async def test_deferred_functions_are_there_at_once() -> None:
    """
    The server's search for them is left out; a call has the form of one that was found.
    """
    deferred = {**FUNCTION, "defer_loading": True}

    got = await ask(tool_call("f", {}), tools=[deferred, {"type": "tool_search"}])

    assert got.tools == ["f"]
    assert (got.output[0]["name"], got.output[0]["namespace"]) == ("f", "f")
    assert got.ignored == ["tool.tool_search"]


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_search_for_tools_that_the_client_runs(is_streamed: bool) -> None:
    """
    It is a function for the model, and an item of its own for the client.
    """
    call = tool_call("tool_search", {"query": "mail"})

    got = await ask(call[:30], call[30:], tools=[SEARCH], stream=is_streamed)

    [item] = got.output
    assert item.pop("id").startswith("tsc_")
    assert item.pop("call_id")
    assert item == {
        "type": "tool_search_call",
        "execution": "client",
        "arguments": {"query": "mail"},
        "status": "completed",
    }
    assert got.answer["tools"] == [SEARCH]


async def test_items_of_the_input_add_tools() -> None:
    """
    Those that Codex sends there, and those that a search has found: each replaces one
    of the same name.
    """
    found = {**FUNCTION, "description": "Newer.", "defer_loading": True}
    items = [
        {"type": "additional_tools", "role": "developer", "tools": [SPACE, FUNCTION]},
        {"role": "user", "content": "Hi"},
        {"type": "tool_search_call", "call_id": "c", "arguments": {"query": "q"}},
        {"type": "tool_search_output", "call_id": "c", "tools": [found, SPACE]},
    ]

    got = await ask(tool_call("f", {}), input=items, tools=[CUSTOM])

    assert got.tools == ["apply_patch", "mcp__demo__lookup", "mcp__demo__cancel", "f"]
    assert got.functions["f"]["description"] == "Newer."
    assert "namespace" not in got.output[0]
    assert [each["type"] for each in got.answer["tools"]] == ["custom"]
    assert [each["role"] for each in got.messages] == ["user", "assistant", "tool"]
    assert got.messages[2]["content"] == (
        "Found: f, mcp__demo__lookup, mcp__demo__cancel"
    )


@pytest.mark.parametrize(
    ("choice", "tools", "forced"),
    [
        ({"type": "custom", "name": "apply_patch"}, None, "apply_patch"),
        ({"type": "function", "name": "lookup"}, None, "mcp__demo__lookup"),
        (
            {"type": "function", "name": "lookup", "namespace": "mcp__demo"},
            None,
            "mcp__demo__lookup",
        ),
        ({"type": "tool_search"}, None, "tool_search"),
        ({"type": "web_search"}, None, None),
        ({"type": "mcp", "server_label": "m", "name": "x"}, None, None),
        ({"type": "shell"}, None, None),
        (
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [
                    {"type": "custom", "name": "apply_patch"},
                    {"type": "mcp", "server_label": "m"},
                    {"type": "namespace", "name": "mcp__demo"},
                ],
            },
            ["mcp__demo__lookup", "mcp__demo__cancel", "apply_patch"],
            None,
        ),
    ],
)
async def test_choices(choice: Any, tools: list[str] | None, forced: Any) -> None:
    """
    Each form names a tool as the client knows it; one that is left out is not forced.
    """
    all_tools = [FUNCTION, SPACE, CUSTOM, SEARCH, BUILT_IN[0]]
    names = ["f", "mcp__demo__lookup", "mcp__demo__cancel", "apply_patch"]

    got = await ask(
        tool_call(forced or "f", {"input": "x"}), tools=all_tools, tool_choice=choice
    )

    assert got.status == 200, got.answer
    assert got.tools == (tools or [*names, "tool_search"])
    assert got.forced == forced
    lost = forced is None and tools is None
    assert ("field.tool_choice" in got.ignored) == lost
    assert got.answer["tool_choice"] == choice
    if forced == "apply_patch":
        assert (got.output[0]["type"], got.output[0]["input"]) == (
            "custom_tool_call",
            "x",
        )


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("a(b", "missing )"),
        ("a)", "unbalanced parenthesis"),
        ("[a", "unterminated character set"),
        ("*a", "nothing to repeat"),
        ("a{2,1}", "min repeat greater"),
        ("a\\", "bad escape (end of pattern)"),
    ],
)
def test_a_malformed_pattern_is_refused_by_name(pattern: str, reason: str) -> None:
    """
    The error has the place, the tool and what is wrong, whether the tool is forced or
    not.
    """
    form = {"type": "grammar", "syntax": "regex", "definition": pattern}

    with pytest.raises(RequestError) as caught:
        read_tools([{**CUSTOM, "format": form}], [], Ignored())

    assert caught.value.param == "tools[0].format.definition"
    assert repr(CUSTOM["name"]) in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.parametrize("pattern", [r"\p{L}+", "(?<n>a)", r"a\z", "[a-z&&[^b]]"])
def test_patterns_of_other_dialects_are_taken(pattern: str) -> None:
    """
    Whether one can be followed is the backend's to say.
    """
    form = {"type": "grammar", "syntax": "regex", "definition": pattern}

    assert read_tools([{**CUSTOM, "format": form}], [], Ignored()).tools


def test_the_pattern_of_a_custom_tool() -> None:
    """
    A regular expression is one for the whole text, wherever its anchors are.
    """
    expected = {
        r"\d+": r"^\d+$",
        r"^a|b$": r"^(?:a|b)$",
        r"^\$\d\$": r"^\$\d\$$",
        r"a\\$": r"^a\\$",
    }
    for given, pattern in expected.items():
        form = {"type": "grammar", "syntax": "regex", "definition": given}
        tools = read_tools([{**CUSTOM, "format": form}], [], Ignored())
        [tool] = tools.tools
        assert json.dumps(pattern) in json.dumps(tool.parameters), given
