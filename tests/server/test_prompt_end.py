"""Messages that the reply continues, and chat templates of requests."""

from typing import Any

import pytest

from hookline_server.replies.settings import ReplySettings
from hookline_server.settings import ServerSettings
from hookline_testing.scripted_server import FakeEngine, client_of

PATHS = ("/v1/chat/completions", "/tokenize")
MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
HELLO = {"role": "user", "content": "Hi"}
BEGUN = {"role": "assistant", "content": "Once upon"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TRUSTING = ServerSettings(replies=ReplySettings(trust_request_chat_template=True))
REASONING = ServerSettings(
    replies=ReplySettings(tool_call_parser="hermes", reasoning_parser="deepseek_r1")
)


async def posted(
    path: str,
    engine: FakeEngine,
    settings: ServerSettings,
    **fields: object,
) -> tuple[int, Any]:
    body = {"messages": [HELLO, BEGUN], "max_tokens": 4, **fields}
    async with client_of(engine, settings) as client:
        response = await client.post(path, json=body)
        return response.status, await response.json()


async def prompt_of(path: str, settings: ServerSettings, **fields: object) -> str:
    """Returns the prompt that an endpoint makes; `>` begins a reply there."""
    engine = FakeEngine()
    status, answer = await posted(path, engine, settings, **fields)
    assert status == 200, answer
    if path == "/tokenize":
        return "".join(map(chr, answer["tokens"]))
    return "".join(map(chr, engine.streams[0].prompt))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"continue_final_message": True}, "Hi\nOnce upon"),
        (
            {"continue_final_message": True, "add_generation_prompt": False},
            "Hi\nOnce upon",
        ),
        ({"continue_final_message": False}, "Hi\nOnce upon\n>"),
        ({"add_generation_prompt": False}, "Hi\nOnce upon\n"),
    ],
)
async def test_the_final_message_is_continued(
    path: str, fields: dict[str, object], expected: str
) -> None:
    """
    The prompt ends with its text, and no reply begins behind it.
    """
    assert await prompt_of(path, ServerSettings(), **fields) == expected


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"add_generation_prompt": True}, "continue_final_message"),
        (
            {"messages": [HELLO, {"role": "assistant", "refusal": "No."}]},
            "messages[1].content",
        ),
        (
            {"messages": [HELLO, {**BEGUN, "tool_calls": [CALL]}]},
            "messages[1].content",
        ),
    ],
)
async def test_what_cannot_be_continued_is_refused(
    path: str, fields: dict[str, object], param: str
) -> None:
    """
    A reply that begins anew, no text, and text with calls behind it.
    """
    status, answer = await posted(
        path, FakeEngine(), ServerSettings(), continue_final_message=True, **fields
    )

    assert status == 400
    assert answer["error"]["param"] == param


@pytest.mark.parametrize("path", PATHS)
async def test_a_trusted_template_makes_the_prompt(path: str) -> None:
    """
    It takes the place of the model's.
    """
    prompt = await prompt_of(path, TRUSTING, chat_template="{{ mine }}")

    assert prompt == "{{ mine }}Hi\nOnce upon\n>"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("settings", "fields", "said"),
    [
        (
            ServerSettings(),
            {"chat_template": "{{ mine }}"},
            "--trust-request-chat-template",
        ),
        (
            TRUSTING,
            {"chat_template_kwargs": {"chat_template": "{{ mine }}"}},
            "chat_template_kwargs.chat_template is reserved",
        ),
        (TRUSTING, {"chat_template": "x" * 2**16 + "y"}, "chat_template has 65537"),
    ],
)
async def test_other_templates_are_refused(
    path: str, settings: ServerSettings, fields: dict[str, object], said: str
) -> None:
    """
    Those that nobody trusts, one among the variables, and one that is too long.
    """
    status, answer = await posted(path, FakeEngine(), settings, **fields)

    assert status == 400
    assert said in answer["error"]["message"]


@pytest.mark.parametrize("path", [MESSAGES, COUNT])
@pytest.mark.parametrize("parts", [False, True])
async def test_a_reply_that_begins_in_the_request_goes_on(
    path: str, *, parts: bool
) -> None:
    """
    As in Anthropic's API: the response has what follows.
    """
    engine = FakeEngine([" a time"])
    content: object = [{"type": "text", "text": "Once upon"}] if parts else "Once upon"

    status, answer = await posted(
        path,
        engine,
        ServerSettings(),
        messages=[HELLO, {"role": "assistant", "content": content}],
    )

    assert status == 200, answer
    if path == COUNT:
        assert answer["input_tokens"] == len("Hi\nOnce upon")
    else:
        assert "".join(map(chr, engine.streams[0].prompt)) == "Hi\nOnce upon"
        assert answer["content"] == [{"type": "text", "text": " a time"}]


async def test_only_text_begins_a_reply() -> None:
    """
    Calls wait for their results; after reasoning alone there is a new reply.
    """
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    thought = {"type": "thinking", "thinking": "Hm."}
    engine = FakeEngine()

    answers = [
        await posted(
            MESSAGES,
            engine,
            REASONING,
            messages=[HELLO, {"role": "assistant", "content": [block]}],
        )
        for block in (call, thought)
    ]

    (status, refused), (accepted, _) = answers
    assert (status, accepted) == (400, 200)
    assert refused["error"]["message"].startswith("messages[1].content[0]:")
    assert "".join(map(chr, engine.streams[0].prompt)) == "Hi\n\n>"


async def test_what_continues_a_message_is_content() -> None:
    """
    Also of a model whose replies begin with reasoning: that was over before.
    """
    fields: dict[str, object] = {"continue_final_message": True}

    _, answer = await posted(PATHS[0], FakeEngine([" a time"]), REASONING, **fields)

    message = answer["choices"][0]["message"]
    assert message["content"] == " a time"
    assert "reasoning" not in message
