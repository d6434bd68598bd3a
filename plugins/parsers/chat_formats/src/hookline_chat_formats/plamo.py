"""Calls and reasoning between control tokens: PLaMo 3."""

from functools import partial

from hookline_chat_formats.deepseek import ControlTokens, DeepSeekV31Parser
from hookline_chat_formats.thinking import Tags, ThinkingParser
from hookline_server.reply_parsing.tool_parser import ToolParserContext


def _begin(name: str) -> str:
    return f"<|plamo:begin_{name}:plamo|>"


def _end(name: str) -> str:
    return f"<|plamo:end_{name}:plamo|>"


_NAMES = ("tool_requests", "tool_request", "tool_name", "tool_arguments")
_MARKS = ("<|plamo:constrain|>", "<|plamo:msg|>")
_TOKENS = (*map(_begin, _NAMES), *map(_end, _NAMES), *_MARKS)
_TURN_END = "<|plamo:tag|>"


class PlamoParser(DeepSeekV31Parser):
    """Name and arguments of each call between tokens of their own."""

    tokens = ControlTokens(
        calls_begin=_begin("tool_requests"),
        call_begin=_begin("tool_request") + _begin("tool_name"),
        separator=_end("tool_name") + _begin("tool_arguments") + "json".join(_MARKS),
        call_end=_end("tool_arguments") + _end("tool_request"),
        calls_end=_end("tool_requests"),
    )
    frames = (_TURN_END, *map(_end, _NAMES))

    def __init__(self, context: ToolParserContext) -> None:
        super().__init__(context)
        self.control_tokens = _TOKENS


PlamoThinkingParser = partial(
    ThinkingParser,
    tags=Tags(opens=(_begin("think"),), closes=(_end("think"),), frames=(_TURN_END,)),
)
