"""Calls as a message of their own: GigaChat 3."""

from hookline_chat_formats.hermes import CallTags, TaggedJsonParser
from hookline_server.reply_parsing.tool_parser import ToolParserContext

_MESSAGE_END, _ROLE_END = "<|message_sep|>", "<|role_sep|>"
_TAGS = CallTags(
    opens=(f"function call{_ROLE_END}", "<|function_call|>"), closes=(_MESSAGE_END,)
)


class GigaChatParser(TaggedJsonParser):
    """`function call<|role_sep|>` and then `{"name": "f", "arguments": {…}}`.

    Since version 3.1 it is `<|function_call|>`. A message ends with `<|message_sep|>`.
    """

    frames = (_MESSAGE_END, "</s>")

    def __init__(self, context: ToolParserContext) -> None:
        super().__init__(context, _TAGS)
        self.control_tokens = (*self.control_tokens, _ROLE_END)
