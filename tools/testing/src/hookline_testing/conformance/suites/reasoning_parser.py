"""Reasoning parsers: the same parts however a reply is cut."""

from typing import cast

from hookline_server.reply_parsing.parts import Content, Reasoning, Repair
from hookline_server.reply_parsing.reasoning_parser import (
    ReasoningParser,
    ReasoningParserContext,
)
from hookline_testing.conformance.pieces import Parser, check_pieces
from hookline_testing.conformance.subject import Subject


def check(subject: Subject) -> None:
    """Reads replies with and without reasoning."""
    made = subject.create(context=ReasoningParserContext())
    if made is None or not subject.has(made, ReasoningParser):
        return
    parser = cast("ReasoningParser", made)
    for name in ("needs_special_tokens", "is_reasoning"):
        subject.typed(getattr(parser, name), bool, name, type(made))
    texts = ["", "Just text, 1 < 2.", "<think>so</think> then"]
    texts += [f"{end} text" for end in getattr(made, "ends", ())]
    check_pieces(
        subject,
        lambda: cast("Parser | None", subject.create(context=ReasoningParserContext())),
        texts,
        (Content, Reasoning, Repair),
    )
