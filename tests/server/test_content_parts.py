"""The parts of chat messages that clients send besides text."""

from typing import Any

import pytest

from hookline.exceptions import RequestError
from hookline_server.protocol.content_parts import Content, read_parts
from hookline_server.protocol.ignored import Ignored

UNSEEN = "[image_url: left out, as this model reads only text]"
IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}
ROWS: list[tuple[str, list[dict[str, Any]], Content, list[str]]] = [
    (
        "assistant",
        [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "So."}],
        Content("So.", "Hm."),
        [],
    ),
    (
        "assistant",
        [
            {"type": "reasoning", "text": "a"},
            {"type": "reasoning", "reasoning": "b"},
            {"type": "thinking", "thinking": [{"type": "text", "text": "c"}]},
            {"type": "thinking"},
        ],
        Content("", "a\nb\nc\n"),
        [],
    ),
    (
        "assistant",
        [{"type": "redacted_thinking", "data": "x"}, IMAGE, {"type": "hologram"}],
        Content(),
        ["part.redacted_thinking", "part.image_url", "part.hologram"],
    ),
    (
        "user",
        [
            {"type": "input_text", "text": "a"},
            {"type": "thinking", "thinking": "b"},
            {"type": "tool_result", "content": [{"text": 1}]},
        ],
        Content("a"),
        ["part.thinking", "part.tool_result"],
    ),
    ("tool", [IMAGE], Content(UNSEEN), ["part.image_url"]),
    ("past user", [IMAGE], Content(UNSEEN), ["part.image_url"]),
]


@pytest.mark.parametrize(("role", "parts", "content", "kinds"), ROWS)
def test_parts_are_read_one_by_one(
    role: str, parts: list[dict[str, Any]], content: Content, kinds: list[str]
) -> None:
    """One that the model cannot use costs nothing but itself."""
    ignored = Ignored()

    is_past = role.startswith("past ")
    read = read_parts(
        parts, "content", role.removeprefix("past "), ignored, is_past=is_past
    )

    assert read == content
    assert list(ignored.kinds) == kinds


@pytest.mark.parametrize(
    ("part", "param"),
    [
        (IMAGE, "content[0]"),
        ({"type": "input_audio", "input_audio": {}}, "content[0]"),
        ({"type": "file", "file": {}}, "content[0]"),
        ({"type": "text", "text": 5}, "content[0].text"),
        ({"text": "a"}, "content[0].type"),
        ("a", "content[0]"),
    ],
)
def test_what_changes_the_meaning_is_refused(part: object, param: str) -> None:
    """The user's question may be about it, or it has not the form of a part."""
    with pytest.raises(RequestError) as caught:
        read_parts([part], "content", "user", Ignored())

    assert caught.value.param == param
