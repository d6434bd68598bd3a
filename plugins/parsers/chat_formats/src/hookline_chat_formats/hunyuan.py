"""Calls and reasoning in tags with a suffix of each checkpoint: Hunyuan 3 and 4.

The tags are those of GLM, such as `<arg_key:6124c78e>`, and calls are within
`<tool_calls:6124c78e>`.
"""

import re
from dataclasses import replace

import msgspec

from hookline.structured_outputs import ReasoningSpan
from hookline_chat_formats.glm import GlmParser
from hookline_chat_formats.thinking import ThinkingParser
from hookline_server.reply_parsing.parts import ReasoningPart, ToolPart
from hookline_server.reply_parsing.reasoning_parser import ReasoningParserContext
from hookline_server.reply_parsing.tool_parser import ToolParserContext

_SUFFIXED = re.compile(
    r"<(/?)(tool_calls?|tool_sep|arg_key|arg_value|think):[^\s<>]{1,64}>"
)
_SEPARATOR = "<tool_sep>"
_UNFINISHED = re.compile(r"</?([a-z_]{0,10}|[a-z_]{4,10}:[^\s<>]{0,64})\Z")
_LONGEST_TAG = 80


class _PlainTags:
    """Leaves out the suffixes of tags, and the tag between a name and its arguments."""

    def __init__(self) -> None:
        self._held = ""

    def push(self, text: str) -> str:
        """Returns what is certain of the text so far."""
        text = self._held + text
        unfinished = _UNFINISHED.search(text, max(0, len(text) - _LONGEST_TAG))
        at = len(text) if unfinished is None else unfinished.start()
        self._held = text[at:]
        return plain(text[:at])

    def finish(self) -> str:
        """Returns the rest."""
        held, self._held = self._held, ""
        return held


def plain(text: str) -> str:
    """Returns a text with plain tags."""
    return _SUFFIXED.sub(r"<\1\2>", text).replace(_SEPARATOR, "")


class HunyuanParser(GlmParser):
    """`<tool_calls><tool_call>f<arg_key>a</arg_key>…</tool_call></tool_calls>`."""

    frames = ("<tool_calls>", "</tool_calls>")

    def __init__(self, context: ToolParserContext) -> None:
        super().__init__(context)
        self._tags = _PlainTags()

    def push(self, text: str) -> list[ToolPart]:
        return super().push(self._tags.push(text))

    def finish(self) -> list[ToolPart]:
        return [*super().push(self._tags.finish()), *super().finish()]


class HunyuanThinkingParser(ThinkingParser):
    """Reasoning between `<think>` and `</think>`."""

    def __init__(self, context: ReasoningParserContext) -> None:
        suffixed = [found[0] for found in _SUFFIXED.finditer(context.prompt_end)]
        self._suffix = suffixed[-1].partition(":")[2][:-1] if suffixed else ""
        super().__init__(replace(context, prompt_end=plain(context.prompt_end)))
        self._plain_tags = _PlainTags()

    @property
    def reasoning_span(self) -> ReasoningSpan | None:
        """Where a structured output begins; see `ReasoningBeforeGrammar`."""
        span = super().reasoning_span
        if span is None or not self._suffix:
            return span
        end = f":{self._suffix}>"
        return msgspec.structs.replace(
            span, begin=span.begin.replace(">", end), end=span.end.replace(">", end)
        )

    def push(self, text: str) -> list[ReasoningPart]:
        return super().push(self._plain_tags.push(text))

    def finish(self) -> list[ReasoningPart]:
        return [*super().push(self._plain_tags.finish()), *super().finish()]
