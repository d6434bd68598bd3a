"""Tool parsers: the same parts however a reply is cut."""

from typing import cast

from hookline_server.reply_parsing.parts import (
    CallArguments,
    CallBegun,
    Content,
    Reasoning,
    Repair,
)
from hookline_server.reply_parsing.tool_parser import ToolParser, ToolParserContext
from hookline_testing.conformance.pieces import Parser, check_pieces
from hookline_testing.conformance.subject import Subject

TOOLS = {"look_up": {"type": "object", "properties": {"word": {"type": "string"}}}}
TEXTS = (
    "",
    "Just text. With < signs [and] {braces}.",
    'CALL look_up {"word": "a"}',
    '<tool_call>{"name": "look_up", "arguments": {"word": "a"}}</tool_call> after',
)


def check(subject: Subject) -> None:
    """Reads replies with and without calls."""
    made = subject.create(context=ToolParserContext(tools=TOOLS))
    if made is None or not subject.has(made, ToolParser):
        return
    needs = cast("ToolParser", made).needs_special_tokens
    subject.typed(needs, bool, "needs_special_tokens", type(made))
    context = ToolParserContext(tools=TOOLS)
    kinds = (CallArguments, CallBegun, Content, Reasoning, Repair)
    check_pieces(
        subject,
        lambda: cast("Parser | None", subject.create(context=context)),
        TEXTS,
        kinds,
    )
