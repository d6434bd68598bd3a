"""Calls behind a tag in the format of any model: models confuse them."""

from collections.abc import Container, Iterable
from enum import Enum, auto

from hookline_chat_formats.json_calls import json_calls
from hookline_chat_formats.key_value_calls import KeyValueCall
from hookline_chat_formats.parameter_calls import QWEN, ParameterCall, ParameterTags
from hookline_server.reply_parsing.parts import Repair
from hookline_server.reply_parsing.stepped_parser import SteppedToolParser, ToolSteps

FENCE = "```"


class Dialect(Enum):
    """How a call is written: Hermes, Qwen3-Coder, GLM."""

    JSON = auto()
    PARAMETERS = auto()
    KEYS = auto()


def any_call(
    parser: SteppedToolParser,
    own: Dialect,
    names: Container[str] | None = None,
    *,
    tags: ParameterTags = QWEN,
    closes: Iterable[str] = QWEN.closes,
) -> ToolSteps[bool]:
    """Yields the calls behind an opening tag; returns whether there was one.

    In another format than the parser's own, they must name functions of the request.
    If there was none, the reader has recorded what was read.

    Args:
        parser: The parser, whose reader is behind the tag.
        own: The parser's format.
        names: Functions that count as calls in that format, if it is JSON; None takes
            any name.
        tags: The tags of parameters.
        closes: Tags behind the calls, which may be missing.
    """
    reader = parser.reader
    yield from reader.skip_space()
    if fence := (yield from reader.accept(FENCE)):
        yield from reader.accept("json")
        yield from reader.skip_space()
    character = yield from reader.peek()
    if character in ("{", "["):
        dialect = Dialect.JSON
        names = names if own is dialect else parser.tools
        is_call = yield from json_calls(parser, names=names)
    elif (yield from ParameterCall(parser, tags).is_next()):
        dialect = Dialect.PARAMETERS
        call = ParameterCall(parser, tags)
        is_call = yield from call.steps(needs_known=own is not dialect)
    elif (yield from ParameterCall(parser).is_next()):
        dialect = Dialect.PARAMETERS
        is_call = yield from ParameterCall(parser).steps(needs_known=True)
    else:
        dialect = Dialect.KEYS
        is_call = yield from KeyValueCall(parser).steps(needs_known=own is not dialect)
    if not is_call:
        return False
    if dialect is not own:
        yield Repair("dialect")
    if parser.follows_call:
        for close in (FENCE, *closes) if fence else closes:
            yield from reader.skip_space()
            yield from reader.accept(close)
    return True
