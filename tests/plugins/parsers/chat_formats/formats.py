"""Replies in each format, and what they say."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from hookline.reply_parsing.parts import (
    CallArguments,
    CallBegun,
    Content,
    Part,
    Reasoning,
)
from hookline.reply_parsing.reasoning_parser import (
    ReasoningParser,
    ReasoningParserContext,
)
from hookline.reply_parsing.tool_parser import ToolParser, ToolParserContext
from hookline_chat_formats.deepseek import DeepSeekV3Parser, DeepSeekV31Parser
from hookline_chat_formats.glm import GlmParser
from hookline_chat_formats.harmony import HarmonyReasoningParser, HarmonyToolParser
from hookline_chat_formats.hermes import HermesParser
from hookline_chat_formats.llama import LlamaJsonParser
from hookline_chat_formats.mistral import MistralParser
from hookline_chat_formats.qwen_coder import QwenCoderParser
from hookline_chat_formats.thinking import DeepSeekR1Parser, ThinkingParser

TOOLS = ToolParserContext(
    tools={
        "get_weather": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer"},
                "any": {},
            },
        },
        "f": {},
    }
)
TOOL_PARSERS: dict[str, Callable[[ToolParserContext], ToolParser]] = {
    "deepseek_v3": DeepSeekV3Parser,
    "deepseek_v31": DeepSeekV31Parser,
    "glm45": GlmParser,
    "hermes": HermesParser,
    "llama3_json": LlamaJsonParser,
    "mistral": MistralParser,
    "openai": HarmonyToolParser,
    "qwen3_coder": QwenCoderParser,
}
REASONING_PARSERS: dict[str, Callable[[ReasoningParserContext], ReasoningParser]] = {
    "deepseek_r1": DeepSeekR1Parser,
    "openai_gptoss": HarmonyReasoningParser,
    "qwen3": ThinkingParser,
}


@dataclass(slots=True)
class Said:
    """The parts of a reply, joined.

    Attributes:
        content: All content.
        reasoning: All reasoning.
        calls: Name and arguments of each call.
        ids: The calls' ids.
    """

    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    ids: list[str | None] = field(default_factory=list)

    def take(self, parts: Iterable[Part]) -> None:
        for part in parts:
            match part:
                case Content(text):
                    self.content += text
                case Reasoning(text):
                    self.reasoning += text
                case CallBegun(name, call_id):
                    self.calls.append((name, ""))
                    self.ids.append(call_id)
                case CallArguments(text):
                    name, arguments = self.calls[-1]
                    self.calls[-1] = (name, arguments + text)


def read(parser: ToolParser | ReasoningParser, pieces: Iterable[str]) -> Said:
    """Returns what a parser finds in a text that comes in pieces."""
    said = Said()
    for piece in pieces:
        said.take(parser.push(piece))
    said.take(parser.finish())
    return said


def call(name: str, arguments: str) -> tuple[str, str]:
    return (name, arguments)


V3 = "<｜tool▁calls▁begin｜>{}<｜tool▁calls▁end｜>"
V3_CALL = (
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{}\n```json\n{}\n```<｜tool▁call▁end｜>"
)
V31_CALL = "<｜tool▁call▁begin｜>{}<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
PARIS = '{"city": "Paris"}'
NASTY = '{"city": "}]\\"</tool_call>[\\\\", "days": [{}, 1.5e3, null]}'
WEATHER = call("get_weather", PARIS)
HEADER = "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"

REPLIES: Sequence[tuple[str, str, str, list[tuple[str, str]]]] = (
    # format, text, content, calls
    *[
        (name, "Hello, <b>you</b>! [1] {x} ", "Hello, <b>you</b>! [1] {x} ", [])
        for name in TOOL_PARSERS
    ],
    *[(name, "", "", []) for name in TOOL_PARSERS],
    # Hermes
    (
        "hermes",
        (
            f'I look.\n<tool_call>\n{{"name": "get_weather", "arguments": {PARIS}}}\n'
            f'</tool_call>\n<tool_call>{{"arguments": {NASTY}, "name": "f"}}'
            "</tool_call>\n Done. "
        ),
        "I look.Done. ",
        [WEATHER, call("f", NASTY)],
    ),
    ("hermes", '<tool_call>{"name": "f"}</tool_call>', "", [call("f", "{}")]),
    (
        "hermes",
        '<tool_call>{"name": "f", "arguments": null}</tool_call>',
        "",
        [call("f", "{}")],
    ),
    (
        "hermes",
        '<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>',
        "",
        [call("f", '{"a": 1}')],
    ),
    (
        "hermes",
        'The tag <tool_call> is for {"name": 1}: </tool_call>',
        'The tag <tool_call> is for {"name": 1}: </tool_call>',
        [],
    ),
    ("hermes", "a <tool_call>{1}</tool_call>", "a <tool_call>{1}</tool_call>", []),
    ("hermes", "a \n\n<tool_cal", "a \n\n<tool_cal", []),
    (  # cut short by the length
        "hermes",
        'Hm. <tool_call>{"name": "f", "arguments": {"a": "b',
        "Hm.",
        [call("f", '{"a": "b')],
    ),
    (
        "hermes",
        'Hm. <tool_call>{"name": "f", "ar',
        'Hm. <tool_call>{"name": "f", "ar',
        [],
    ),
    # Llama
    (
        "llama3_json",
        (
            f'\n{{"name": "get_weather", "parameters": {PARIS}}}; '
            '{"type": "function", "function": "f", "parameters": {}}'
        ),
        "",
        [WEATHER, call("f", "{}")],
    ),
    (
        "llama3_json",
        f'Well <|python_tag|>{{"name": "other", "parameters": {PARIS}}} then',
        "Wellthen",
        [call("other", PARIS)],
    ),
    (
        "llama3_json",
        '{"name": "Bob", "parameters": {"age": 5}}',
        '{"name": "Bob", "parameters": {"age": 5}}',
        [],
    ),
    ("llama3_json", '{"answer": [1]} ', '{"answer": [1]} ', []),
    ("llama3_json", '{"name": "f"}', '{"name": "f"}', []),
    (
        "llama3_json",
        '{"name": "f", "parameters": {}}; {"a": 1}',
        '; {"a": 1}',
        [call("f", "{}")],
    ),
    # Mistral
    (
        "mistral",
        (
            f'Yes. [TOOL_CALLS] [{{"name": "get_weather", "arguments": {PARIS}}}, '
            f'{{"name": "f", "arguments": {NASTY}}}]'
        ),
        "Yes.",
        [WEATHER, call("f", NASTY)],
    ),
    (
        "mistral",
        f"[TOOL_CALLS]get_weather[ARGS]{PARIS}[TOOL_CALLS]f{NASTY}",
        "",
        [WEATHER, call("f", NASTY)],
    ),
    ("mistral", "[TOOL_CALLS] no call", "[TOOL_CALLS] no call", []),
    ("mistral", "a [TOOL_CALLS][]", "a [TOOL_CALLS][]", []),
    (
        "mistral",
        '[TOOL_CALLS][{"name": "f", "arguments": {}}, {"x": 1}]',
        ', {"x": 1}]',
        [call("f", "{}")],
    ),
    # DeepSeek
    (
        "deepseek_v3",
        "So: "
        + V3.format(
            V3_CALL.format("get_weather", PARIS) + "\n" + V3_CALL.format("f", NASTY)
        ),
        "So:",
        [WEATHER, call("f", NASTY)],
    ),
    (
        "deepseek_v31",
        "So: "
        + V3.format(
            V31_CALL.format("get_weather", PARIS) + V31_CALL.format("f", NASTY)
        ),
        "So:",
        [WEATHER, call("f", NASTY)],
    ),
    (
        "deepseek_v31",
        "a <｜tool▁calls▁begin｜>b",
        "a <｜tool▁calls▁begin｜>b",
        [],
    ),
    # GLM
    (
        "glm45",
        (
            "Now.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n"
            '<arg_value>"Pa\nris" </arg_value>\n<arg_key>days</arg_key>'
            "<arg_value>3</arg_value><arg_key>any</arg_key>"
            "<arg_value>[1, {}]</arg_value><arg_key>more</arg_key>"
            "<arg_value>__import__('os')</arg_value>\n</tool_call>"
            "<tool_call>f</tool_call>"
        ),
        "Now.",
        [
            call(
                "get_weather",
                '{"city": "\\"Pa\\nris\\" ", "days": 3, "any": [1, {}], '
                '"more": "__import__(\'os\')"}',
            ),
            call("f", "{}"),
        ],
    ),
    (
        "glm45",
        (
            "<tool_call>f<arg_key>a</arg_key><arg_value>NaN</arg_value>"
            "<arg_key>b</arg_key><arg_value>True</arg_value></tool_call>"
        ),
        "",
        [call("f", '{"a": "NaN", "b": true}')],
    ),
    ("glm45", "<tool_call>a b</tool_call>", "<tool_call>a b</tool_call>", []),
    (  # cut short by the length
        "glm45",
        "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Par",
        "",
        [call("get_weather", '{"city": "Par')],
    ),
    # Qwen3-Coder
    (
        "qwen3_coder",
        (
            "Now.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nPa\n\nris\n\n"
            "</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>\n"
            "<function=f>\n</function>"
        ),
        "Now.",
        [
            call("get_weather", '{"city": "Pa\\n\\nris\\n", "days": 3}'),
            call("f", "{}"),
        ],
    ),
    ("qwen3_coder", "<tool_call>\n{}", "<tool_call>\n{}", []),
    # gpt-oss
    (
        "openai",
        (
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
            "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant"
            f"{HEADER}{PARIS}<|call|><|start|>assistant to=functions.f"
            f"<|channel|>commentary json<|message|>{NASTY}"
        ),
        "I look.",
        [WEATHER, call("f", NASTY)],
    ),
    (
        "openai",
        f" to=functions.get_weather<|channel|>commentary json<|message|>{PARIS}",
        "",
        [WEATHER],
    ),
    ("openai", "<|channel|>final<|message|>Hi <b>.<|return|>", "Hi <b>.", []),
    ("openai", "<|channel|>what", "<|channel|>what", []),
)
