"""Replies in the formats of models of 2026, well-formed and otherwise."""

import json
from collections.abc import Callable, Sequence

from hookline_chat_formats import (
    apertus,
    cohere,
    elements,
    gemma,
    gigachat,
    hunyuan,
    plamo,
    qwen_coder,
    thinking,
    xtml,
)
from hookline_server.reply_parsing.reasoning_parser import (
    ReasoningParser,
    ReasoningParserContext,
)
from hookline_server.reply_parsing.tool_parser import ToolParser, ToolParserContext

NEWER_TOOL_PARSERS: dict[str, Callable[[ToolParserContext], ToolParser]] = {
    "apertus": apertus.ApertusParser,
    "cohere_command3": cohere.CohereParser,
    "deepseek_v41": qwen_coder.DeepSeekV41Parser,
    "dots": qwen_coder.DotsParser,
    "functiongemma": gemma.FunctionGemmaParser,
    "gemma4": gemma.GemmaParser,
    "gigachat3": gigachat.GigaChatParser,
    "hy_v4": hunyuan.HunyuanParser,
    "kimi_k3": xtml.KimiK3Parser,
    "minicpm5": qwen_coder.MiniCpmParser,
    "minimax_m3": elements.MiniMaxM3Parser,
    "plamo3": plamo.PlamoParser,
}
NEWER_REASONING_PARSERS: dict[
    str, Callable[[ReasoningParserContext], ReasoningParser]
] = {
    "apertus": thinking.ApertusThinkingParser,
    "cohere_command3": cohere.Command3ThinkingParser,
    "cohere_command4": cohere.Command4ThinkingParser,
    "gemma4": thinking.GemmaThinkingParser,
    "hy_v4": hunyuan.HunyuanThinkingParser,
    "kimi_k3": xtml.KimiK3ThinkingParser,
    "minimax_m3": thinking.MiniMaxM3ThinkingParser,
    "plamo3": plamo.PlamoThinkingParser,
}

Rows = Sequence[tuple[str, str, str, list[tuple[str, str]]]]
"""Format, text, content and calls."""

PARIS = '{"city": "Paris"}'
WEATHER = ("get_weather", PARIS)
DAYS = ("get_weather", '{"city": "Paris", "days": 3}')
EMPTY = ("f", "{}")

M3 = "]<]minimax[>["
DSML = "｜DSML｜"


def kimi(call: str, **arguments: object) -> str:
    """Returns a call as Kimi K3 writes it."""
    types = {
        str: "string",
        int: "number",
        list: "array",
        dict: "object",
        bool: "boolean",
    }
    written = "".join(
        f'<|open|>argument key="{key}" type="{types[type(value)]}"<|sep|>'
        f"{value if isinstance(value, str) else json.dumps(value)}"
        "<|close|>argument<|sep|>"
        for key, value in arguments.items()
    )
    return f'<|open|>call tool="{call}" index="1"<|sep|>{written}<|close|>call<|sep|>'


def element(name: str, inside: str) -> str:
    """Returns an element of MiniMax M3."""
    return f"{M3}<{name}>{inside}{M3}</{name}>"


def minimax(*calls: tuple[str, str]) -> str:
    """Returns calls as MiniMax M3 writes them."""
    written = "\n".join(
        f'{M3}<invoke name="{name}">{inside}{M3}</invoke>' for name, inside in calls
    )
    return f"{M3}<tool_call>\n{written}\n{M3}</tool_call>"


def plamo3(name: str, arguments: str) -> str:
    """Returns a call as PLaMo 3 writes it."""
    return (
        "<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>"
        f"{name}<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|>"
        f"<|plamo:constrain|>json<|plamo:msg|>{arguments}"
        "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>"
    )


def hy(name: str, pairs: str, suffix: str = "", separator: str = "") -> str:
    """Returns a call as Hunyuan writes it; pairs are `key=value`, joined by `;`."""
    written = "".join(
        f"<arg_key{suffix}>{pair.partition('=')[0]}</arg_key{suffix}>"
        f"<arg_value{suffix}>{pair.partition('=')[2]}</arg_value{suffix}>"
        for pair in filter(None, pairs.split(";"))
    )
    return f"<tool_call{suffix}>{name}{separator}{written}</tool_call{suffix}>"


NEWER_REPLIES: Rows = (
    # Gemma 4
    (
        "gemma4",
        (
            'So.<|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:3}<tool_call|>'
            "<|tool_call>call:f{}<tool_call|><|tool_response>"
        ),
        "So.",
        [DAYS, EMPTY],
    ),
    (
        "gemma4",
        (
            '<|tool_call>call:f{a:{b:<|"|>},"\n<|"|>,<|"|>c<|"|>:[true,-1.5,null]},'
            'd:[<|"|>x<|"|>,{}],e:[]}<tool_call|>'
        ),
        "",
        [
            (
                "f",
                (
                    r'{"a": {"b": "},\"\n", "c": [true, -1.5, null]}, '
                    '"d": ["x", {}], "e": []}'
                ),
            )
        ],
    ),
    (  # texts without delimiters, and values of the schema's types
        "gemma4",
        (
            '<|tool_call>call:typed{text:12,count:<|"|>3<|"|>,flag:True,unit:C,'
            "maybe:New York}<tool_call|>"
        ),
        "",
        [
            (
                "typed",
                (
                    '{"text": "12", "count": 3, "flag": true, "unit": "C", '
                    '"maybe": "New York"}'
                ),
            )
        ],
    ),
    (  # no `call`; round brackets; no closing brace
        "gemma4",
        (
            '<|tool_call>:get_weather{city:<|"|>Paris<|"|>}<tool_call|>'
            '<|tool_call>call:get_weather(city:<|"|>Paris<|"|>)<tool_call|>'
            '<|tool_call>call:get_weather{city:<|"|>Paris<tool_call|>'
        ),
        "",
        [WEATHER, WEATHER, WEATHER],
    ),
    (  # without tokens: only at the start, and only a known function
        "gemma4",
        'call:get_weather{"city": "Paris"} and call:f{}',
        "and call:f{}",
        [WEATHER],
    ),
    ("gemma4", "call:who{} ", "call:who{} ", []),
    ("gemma4", "a <|tool_call>b", "a b", []),
    # FunctionGemma
    (
        "functiongemma",
        (
            "So. <start_function_call>call:get_weather{city:"
            "<escape>Paris<escape>,days:3}"
            "<end_function_call><start_function_call>call:f{}<end_function_call>"
        ),
        "So.",
        [DAYS, EMPTY],
    ),
    # Kimi K3
    (
        "kimi_k3",
        "<|open|>response<|sep|>So.<|close|>response<|sep|><|open|>tools<|sep|>"
        + kimi("get_weather", city="Paris", days=3)
        + kimi("f")
        + "<|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>",
        "So.",
        [DAYS, EMPTY],
    ),
    (
        "kimi_k3",
        "<|open|>tools<|sep|>"
        + kimi("f", a="<b>\n12", b=[1, {}], c=False)
        + "<|close|>tools<|sep|>",
        "",
        [("f", r'{"a": "<b>\n12", "b": [1, {}], "c": false}')],
    ),
    (  # arguments as they came, in one block; names are escaped
        "kimi_k3",
        (
            '<|open|>call tool="a&amp;&quot;b" index="1"<|sep|>'
            '<|open|>json type="object"'
            '<|sep|>{"a": 1}<|close|>json<|sep|><|close|>call<|sep|>'
        ),
        "",
        [('a&"b', '{"a": 1}')],
    ),
    ("kimi_k3", "Hi.<|close|>response<|sep|><|close|>message<|sep|>", "Hi.", []),
    # MiniMax M3
    (
        "minimax_m3",
        "So.\n"
        + minimax(
            ("get_weather", element("city", "Paris") + element("days", "3")), ("f", "")
        )
        + "\n",
        "So.",
        [DAYS, EMPTY],
    ),
    (
        "minimax_m3",
        minimax(
            (
                "f",
                element("a", element("item", "1") + element("item", "x"))
                + element("b", element("c", "") + element("d", "true"))
                + element("e", "1")
                + element("e", "2"),
            )
        ),
        "",
        [("f", '{"a": [1, "x"], "b": {"c": "", "d": true}, "e": [1, 2]}')],
    ),
    (
        "minimax_m3",
        minimax(
            (
                "typed",
                element("text", "<b>\n12 ")
                + element("list", "")
                + element("count", " 7 ")
                + element("maybe", "null"),
            )
        ),
        "",
        [("typed", r'{"text": "<b>\n12 ", "list": [], "count": 7, "maybe": null}')],
    ),
    (  # text beside elements, and an element that is not closed
        "minimax_m3",
        minimax(("f", element("a", f"x{element('b', 'y')}{M3}<c>z"))),
        "",
        [("f", '{"a": {"b": "y", "c": "z", "$text": "x"}}')],
    ),
    # DeepSeek V4.1
    (
        "deepseek_v41",
        (
            f'So.\n\n<{DSML} calls>\n<{DSML} invoke name="get_weather">\n'
            f'<{DSML} parameter name="city" string="true">Paris</{DSML} parameter>\n'
            f'<{DSML} parameter name="days" string="false">3</{DSML} parameter>\n'
            f'</{DSML} invoke>\n<{DSML} invoke name="f">\n'
            f"</{DSML} invoke>\n</{DSML} calls>"
        ),
        "So.",
        [DAYS, EMPTY],
    ),
    # Command
    (
        "cohere_command3",
        (
            "<|START_ACTION|>[\n"
            '    {"tool_call_id": "0", "tool_name": "get_weather", "parameters": '
            f"{PARIS}}},\n    "
            '{"tool_call_id": "1", "tool_name": "f", "parameters": {}}'
            "\n]<|END_ACTION|>"
        ),
        "",
        [WEATHER, EMPTY],
    ),
    (
        "cohere_command3",
        (
            "<|START_RESPONSE|>It is <co>warm</co: 0:[1,2],1:[0]>, a</co>b </code>"
            "<|END_RESPONSE|>"
        ),
        "It is warm, ab </code>",
        [],
    ),
    (
        "cohere_command3",
        "<|START_TEXT|>It is <co>warm</co: 0:[1]>.<|END_TEXT|>",
        "It is warm.",
        [],
    ),
    # Hunyuan
    (
        "hy_v4",
        "So.<tool_calls>\n"
        + hy("get_weather", "city=Paris;days=3", separator="<tool_sep>\n")
        + "\n"
        + hy("f", "", separator="<tool_sep>")
        + "\n</tool_calls>",
        "So.",
        [DAYS, EMPTY],
    ),
    (
        "hy_v4",
        "So.<tool_calls:6124c78e>"
        + hy("get_weather", "city=Paris;days=3", ":6124c78e")
        + hy("f", "", ":6124c78e")
        + "</tool_calls:6124c78e>",
        "So.",
        [DAYS, EMPTY],
    ),
    (
        "hy_v4",
        f"<tool_calls>{hy('typed', 'text=</arg_value> x;list=[1]')}</tool_calls>",
        "",
        [("typed", '{"text": "</arg_value> x", "list": [1]}')],
    ),
    ("hy_v4", "<tool_calls:x> no", " no", []),
    # PLaMo 3
    (
        "plamo3",
        "So. <|plamo:begin_tool_requests:plamo|>"
        + plamo3("get_weather", PARIS)
        + plamo3("f", "{}")
        + "<|plamo:end_tool_requests:plamo|><|plamo:tag|>",
        "So.",
        [WEATHER, EMPTY],
    ),
    ("plamo3", "Hi.<|plamo:tag|>", "Hi.", []),
    # MiniCPM 5
    (
        "minicpm5",
        (
            'So.\n<function name="get_weather"><param name="city">Paris</param>'
            '<param name="days">3</param></function>\n<function name="f"></function>'
        ),
        "So.",
        [DAYS, EMPTY],
    ),
    (
        "minicpm5",
        (
            "<function name='typed'>\n<param name='text'><![CDATA[a"
            "</param>\n<b>]]></param>\n"
            '<param name="list">[1]</param>\n</function>'
        ),
        "",
        [("typed", r'{"text": "a</param>\n<b>", "list": [1]}')],
    ),
    (
        "minicpm5",
        '<functionname="get_weather"><paramname="city">Paris</param></function>',
        "",
        [WEATHER],
    ),
    # GigaChat 3
    (
        "gigachat3",
        (
            'So.<|message_sep|>\n\nfunction call<|role_sep|>\n{"name": "get_weather", '
            f'"arguments": {PARIS}}}<|message_sep|>'
        ),
        "So.",
        [WEATHER],
    ),
    (
        "gigachat3",
        f'So.<|function_call|>{{"name": "get_weather", "arguments": {PARIS}}}',
        "So.",
        [WEATHER],
    ),
    # Apertus
    (
        "apertus",
        (
            f'So. <|tools_prefix|>[{{"get_weather": {PARIS}}}, {{"f": {{}}}}]'
            "<|tools_suffix|> x"
        ),
        "So.x",
        [WEATHER, EMPTY],
    ),
    ("apertus", '<|tools_prefix|>{"f": {}}', "", [EMPTY]),
    ("apertus", '<|tools_prefix|>["f"]', '["f"]', []),
    # dots
    (
        "dots",
        (
            'So.<dots_function_call>\n<invoke name="get_weather">\n'
            '<parameter name="city">'
            'Paris</parameter>\n<parameter name="days">3</parameter>\n</invoke>\n'
            '<invoke name="f"></invoke>\n</dots_function_call>'
        ),
        "So.",
        [DAYS, EMPTY],
    ),
    (
        "dots",
        (
            '<dots_function_call>{"name": "get_weather", "arguments": '
            f"{PARIS}}}</dots_function_call>"
        ),
        "",
        [WEATHER],
    ),
)

NEWER_REASONING: Sequence[tuple[str, str, str, str, str]] = (
    # parser, end of the prompt, reply, reasoning, content
    ("apertus", "", "<|inner_prefix|>Hm.<|inner_suffix|>Hi.", "Hm.", "Hi."),
    ("apertus", "", "Hi.", "", "Hi."),
    (
        "cohere_command3",
        "",
        (
            "<|START_THINKING|> A <co>rainbow</co: 0:[1]>.<|END_THINKING|>\n"
            "<|START_RESPONSE|>foo <co>bar</co: 0:[1,2],1:[3]><|END_RESPONSE|>"
        ),
        "A rainbow.",
        "foo bar",
    ),
    (
        "cohere_command4",
        "<|START_THINKING|><|END_THINKING|>",
        "<|START_TEXT|>Hi.<|END_TEXT|>",
        "",
        "Hi.",
    ),
    (
        "gemma4",
        "<|turn>model\n",
        "<|channel>thought\nHm.\n<channel|>Hi.<turn|>",
        "Hm.",
        "Hi.",
    ),
    ("gemma4", "<|turn>model\n<|channel>thought\n", "Hm.<channel|>Hi.", "Hm.", "Hi."),
    ("gemma4", "<|channel>thought\n<channel|>", "Hi.", "", "Hi."),
    ("hy_v4", "<think:6124c78e>", "Hm.</think:6124c78e>Hi.", "Hm.", "Hi."),
    ("hy_v4", "", "<think:a.b>Hm.</think:a.b>Hi. 1 <", "Hm.", "Hi. 1 <"),
    ("hy_v4", "<think></think>", "Hi.", "", "Hi."),
    (
        "kimi_k3",
        "<|open|>think<|sep|>",
        (
            "Hm.<|close|>think<|sep|><|open|>response<|sep|>Hi.<|close|>response<|sep|>"
            "<|close|>message<|sep|><|end_of_msg|>"
        ),
        "Hm.",
        "Hi.",
    ),
    (
        "kimi_k3",
        "<|open|>response<|sep|>",
        "Hi.<|close|>response<|sep|>",
        "",
        "Hi.",
    ),
    (  # the channel is not closed
        "kimi_k3",
        "<|open|>think<|sep|>",
        "Hm.<|open|>response<|sep|>Hi.",
        "Hm.",
        "Hi.",
    ),
    ("minimax_m3", "<mm:think>", "Hm.</mm:think>Hi.", "Hm.", "Hi."),
    ("minimax_m3", "", "</mm:think>Hi.", "", "Hi."),
    (
        "plamo3",
        "",
        "<|plamo:begin_think:plamo|>Hm.<|plamo:end_think:plamo|>Hi.<|plamo:tag|>",
        "Hm.",
        "Hi.",
    ),
)
