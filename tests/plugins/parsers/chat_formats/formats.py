"""Replies in each format, and what they say."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hookline_chat_formats import (
    deepseek,
    glm,
    harmony,
    hermes,
    llama,
    mistral,
    pythonic,
    qwen_coder,
    thinking,
)
from hookline_server.replies.failures import FailureCounts
from hookline_server.replies.guarded_parser import GuardedParser
from hookline_server.replies.reply_reader import ReplyReader
from hookline_server.reply_parsing.parts import (
    CallArguments,
    CallBegun,
    Content,
    Part,
    Reasoning,
    Repair,
)
from hookline_server.reply_parsing.reasoning_parser import (
    ReasoningParser,
    ReasoningParserContext,
)
from hookline_server.reply_parsing.tool_parser import ToolParser, ToolParserContext

from .newer_formats import (
    NEWER_REASONING_PARSERS,
    NEWER_REPLIES,
    NEWER_TOOL_PARSERS,
)

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
        "typed": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "list": {"type": ["array", "null"]},
                "flag": {"type": "boolean"},
                "count": {"$ref": "#/$defs/Count"},
                "unit": {"enum": ["C", "F"]},
            },
            "$defs": {"Count": {"type": "integer"}},
        },
    }
)
TOOL_PARSERS: dict[str, Callable[[ToolParserContext], ToolParser]] = {
    "deepseek_v3": deepseek.DeepSeekV3Parser,
    "deepseek_v31": deepseek.DeepSeekV31Parser,
    "deepseek_v32": qwen_coder.DeepSeekV32Parser,
    "glm45": glm.GlmParser,
    "granite": hermes.GraniteParser,
    "granite-20b-fc": hermes.Granite20bParser,
    "hermes": hermes.HermesParser,
    "hunyuan_a13b": hermes.ToolCallsParser,
    "internlm": hermes.InternLmParser,
    "kimi_k2": deepseek.KimiParser,
    "lfm2": pythonic.Lfm2Parser,
    "llama3_json": llama.LlamaJsonParser,
    "longcat": hermes.LongcatParser,
    "minimax_m2": qwen_coder.MiniMaxM2Parser,
    "mistral": mistral.MistralParser,
    "olmo3": pythonic.Olmo3Parser,
    "openai": harmony.HarmonyToolParser,
    "phi4_mini_json": hermes.Phi4MiniParser,
    "pythonic": pythonic.PythonicParser,
    "qwen3_coder": qwen_coder.QwenCoderParser,
    "seed_oss": qwen_coder.SeedParser,
    "step3": qwen_coder.Step3Parser,
    "xlam": hermes.XLamParser,
    **NEWER_TOOL_PARSERS,
}
"""Each parser by one of its names."""

REASONING_PARSERS: dict[str, Callable[[ReasoningParserContext], ReasoningParser]] = {
    "deepseek_r1": thinking.DeepSeekR1Parser,
    "ernie45": thinking.ErnieParser,
    "granite": thinking.GraniteParser,
    "hunyuan_a13b": thinking.HunyuanParser,
    "mistral": thinking.MistralThinkingParser,
    "openai_gptoss": harmony.HarmonyReasoningParser,
    "qwen3": thinking.ThinkingParser,
    "seed_oss": thinking.SeedThinkingParser,
    **NEWER_REASONING_PARSERS,
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

    def take(self, parts: Iterable[Part | Repair]) -> None:
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
                case Repair():
                    pass


def read(parser: ToolParser | ReasoningParser, pieces: Iterable[str]) -> Said:
    """Returns what a parser finds in a text that comes in pieces."""
    said = Said()
    for piece in pieces:
        said.take(parser.push(piece))
    said.take(parser.finish())
    return said


@dataclass(slots=True, kw_only=True)
class Reply:
    """A reply that the parsers of a server read.

    Attributes:
        tool: Name of the tool parser; None for none.
        reasoning: Name of the parser of reasoning; None for none.
        prompt_end: The end of the prompt.
        tools: The functions.
        counts: What the parsers mended, and their failures.
    """

    tool: str | None = None
    reasoning: str | None = None
    prompt_end: str = ""
    tools: Mapping[str, Mapping[str, object]] = field(
        default_factory=lambda: TOOLS.tools
    )
    counts: FailureCounts = field(default_factory=FailureCounts)

    def read(self, pieces: Iterable[str], *, is_cut: bool = False) -> Said:
        """Returns what a text says that comes in pieces, and may end too early."""
        reader, said = self._reader(), Said()
        for piece in pieces:
            for parts in reader.read(piece, (), bytes):
                said.take(parts)
        said.take(reader.finish(is_cut=is_cut))
        return said

    def _reader(self) -> ReplyReader:
        reasoning = tools = None
        if self.reasoning is not None:
            before = ReasoningParserContext(prompt_end=self.prompt_end)
            parser = REASONING_PARSERS[self.reasoning](before)
            reasoning = GuardedParser("reasoning", self.reasoning, parser, self.counts)
        if self.tool is not None:
            context = ToolParserContext(
                tools=self.tools,
                reasoning_ends=() if reasoning is None else reasoning.ends,
            )
            finder = TOOL_PARSERS[self.tool](context)
            tools = GuardedParser("tool", self.tool, finder, self.counts)
        return ReplyReader(reasoning, tools)


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
DSML = "｜DSML｜"
KIMI_CALL = "<|tool_call_begin|>{}<|tool_call_argument_begin|>{}<|tool_call_end|>"
STEP_CALL = (
    '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{}">{}'
    "</steptml:invoke><｜tool_call_end｜>"
)
JSON_CALL = '{{"name": "{}", "arguments": {}}}'
TWO_OBJECTS = (
    f"[{JSON_CALL.format('get_weather', PARIS)}, {JSON_CALL.format('f', NASTY)}]"
)
TWO_CALLS = [WEATHER, call("f", NASTY)]
HEADER = "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"

REPLIES: Sequence[tuple[str, str, str, list[tuple[str, str]]]] = (
    # format, text, content, calls
    *[
        (name, "Hello, <b>you</b>! [1] {x} ", "Hello, <b>you</b>! [1] {x} ", [])
        for name in TOOL_PARSERS
    ],
    *[(name, "", "", []) for name in TOOL_PARSERS],
    *NEWER_REPLIES,
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
        [call("f", '{"a": "b"}')],
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
    ("mistral", "[TOOL_CALLS] no call", " no call", []),
    ("mistral", "a [TOOL_CALLS][]", "a []", []),
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
        "a b",
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
        [call("get_weather", '{"city": "Par"}')],
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
    ("openai", "<|channel|>what", "what", []),
    # JSON in other tags
    ("granite", f"<|tool_call|>{TWO_OBJECTS}", "", TWO_CALLS),
    ("granite", f"So: <tool_call>{TWO_OBJECTS} end", "So:end", TWO_CALLS),
    (
        "granite-20b-fc",
        (
            f"<function_call> {JSON_CALL.format('get_weather', PARIS)} "
            f"<function_call>{JSON_CALL.format('f', NASTY)}"
        ),
        "",
        TWO_CALLS,
    ),
    ("hunyuan_a13b", f"Hm.\n<tool_calls>{TWO_OBJECTS}</tool_calls>", "Hm.", TWO_CALLS),
    (
        "internlm",
        (
            "I look.<|action_start|><|plugin|>\n"
            f'{{"name": "get_weather", "parameters": {PARIS}}}<|action_end|>\n'
        ),
        "I look.",
        [WEATHER],
    ),
    ("internlm", "<|action_start|><|plugin|>[]", "[]", []),
    (
        "longcat",
        (
            f"<longcat_tool_call>{JSON_CALL.format('f', NASTY)}"
            "</longcat_tool_call>\n<longcat_tool_call>?\n"
        ),
        "?\n",
        [call("f", NASTY)],
    ),
    ("phi4_mini_json", f"functools{TWO_OBJECTS}", "", TWO_CALLS),
    ("phi4_mini_json", "import functools [1]", "import functools [1]", []),
    ("xlam", TWO_OBJECTS, "", TWO_CALLS),
    ("xlam", f"Hm.\n```json\n{TWO_OBJECTS}\n```", "Hm.", TWO_CALLS),
    (
        "xlam",
        f"<tool_call>{JSON_CALL.format('f', NASTY)}</tool_call>",
        "",
        [call("f", NASTY)],
    ),
    ("xlam", '```json\n[{"name": "Bob"}]\n```', '```json\n[{"name": "Bob"}]\n```', []),
    # Kimi
    (
        "kimi_k2",
        (
            "Yes.<|tool_calls_section_begin|>"
            f"{KIMI_CALL.format('functions.get_weather:0', PARIS)}\n"
            f"{KIMI_CALL.format('functions.f:12', NASTY)}<|tool_calls_section_end|>"
        ),
        "Yes.",
        TWO_CALLS,
    ),
    (
        "kimi_k2",
        "a " + KIMI_CALL.format("what is it", "{}"),
        "a what is it{}",
        [],
    ),
    # Parameters in other tags
    (
        "seed_oss",
        (
            "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris"
            "</parameter>\n</function>\n</seed:tool_call>"
        ),
        "",
        [WEATHER],
    ),
    (
        "minimax_m2",
        (
            'Now.\n<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name='
            '"city">Paris</parameter>\n<parameter name="days">3</parameter>\n'
            '</invoke>\n<invoke name="f"></invoke>\n</minimax:tool_call>'
        ),
        "Now.",
        [call("get_weather", '{"city": "Paris", "days": 3}'), call("f", "{}")],
    ),
    (
        "deepseek_v32",
        (
            f'Now.\n\n<{DSML}function_calls>\n<{DSML}invoke name="f">\n'
            f'<{DSML}parameter name="a" string="true">5 < 6</{DSML}parameter>\n'
            f'<{DSML}parameter name="b" string="false">[5]</{DSML}parameter>\n'
            f'</{DSML}invoke>\n<{DSML}invoke name="f">\n</{DSML}invoke>\n'
            f"</{DSML}function_calls>"
        ),
        "Now.",
        [call("f", '{"a": "5 < 6", "b": [5]}'), call("f", "{}")],
    ),
    ("deepseek_v32", f"<{DSML}tool_calls>?", "?", []),
    (
        "step3",
        (
            "Now.<｜tool_calls_begin｜>"
            + STEP_CALL.format(
                "get_weather",
                '<steptml:parameter name="city">Paris</steptml:parameter>',
            )
            + "\n"
            + STEP_CALL.format("f", "")
            + "<｜tool_calls_end｜>"
        ),
        "Now.",
        [WEATHER, call("f", "{}")],
    ),
    # Python
    (
        "pythonic",
        (
            "[get_weather(city='Pa\\'ris\\n', days=-3), f(a=[1, (True, None,), "
            "{'x': 1.5e3, 2: \"\\u00e9\\x41\"}], b=word, c={}), f()]"
        ),
        "",
        [
            call("get_weather", '{"city": "Pa\'ris\\n", "days": -3}'),
            call(
                "f",
                (
                    '{"a": [1, [true, null], {"x": 1.5e3, "2": "éA"}], '
                    '"b": "word", "c": {}}'
                ),
            ),
            call("f", "{}"),
        ],
    ),
    (
        "pythonic",
        "<|python_start|>[other(a=1)]<|python_end|> Done.",
        "Done.",
        [call("other", '{"a": 1}')],
    ),
    ("pythonic", "[other(a=1)]", "[other(a=1)]", []),
    ("pythonic", "[f(1)] and [g]", "[f(1)] and [g]", []),
    ("pythonic", "[1, 2]", "[1, 2]", []),
    ("pythonic", "[f(a=1), what]", ", what]", [call("f", '{"a": 1}')]),
    (  # cut short by the length
        "pythonic",
        '[get_weather(city="""Par',
        "",
        [call("get_weather", '{"city": "Par"}')],
    ),
    (
        "lfm2",
        'I look.<|tool_call_start|>[f(a="x"), f()]<|tool_call_end|>Done.',
        "I look.Done.",
        [call("f", '{"a": "x"}'), call("f", "{}")],
    ),
    (
        "olmo3",
        '<function_calls>\nf(a="x")\nf(b=[1])\n</function_calls>',
        "",
        [call("f", '{"a": "x"}'), call("f", '{"b": [1]}')],
    ),
)
