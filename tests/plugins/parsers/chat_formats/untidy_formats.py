"""Replies beside what models were trained to write, and what they say."""

from collections.abc import Sequence

from .formats import (
    JSON_CALL,
    KIMI_CALL,
    NASTY,
    PARIS,
    TOOL_PARSERS,
    TWO_CALLS,
    TWO_OBJECTS,
    WEATHER,
    call,
)

ONE_OBJECT = JSON_CALL.format("get_weather", PARIS)
PARAMETER = "<parameter={}>\n{}\n</parameter>\n"
TYPED_CALL = "<tool_call>\n<function=typed>\n{}</function>\n</tool_call>"

UNTIDY_REPLIES: Sequence[tuple[str, str, str, list[tuple[str, str]]]] = (
    # format, text, content, calls
    (  # several objects in one tag
        "hermes",
        f"<tool_call>\n{ONE_OBJECT}\n{JSON_CALL.format('f', NASTY)}\n</tool_call> a",
        "a",
        TWO_CALLS,
    ),
    (
        "hermes",
        f'<tool_call>{ONE_OBJECT} {{"a": 1}}</tool_call>',
        ' {"a": 1}',
        [WEATHER],
    ),
    (  # the last brace is missing
        "hermes",
        f'<tool_call>{{"name": "get_weather", "arguments": {PARIS}</tool_call>',
        "",
        [WEATHER],
    ),
    (
        "hermes",
        (
            '<tool_call>{"name": "f", "arguments": {"a": "é\\u00e9\\"}{<tool_call>"}}'
            "</tool_call>"
        ),
        "",
        [call("f", '{"a": "é\\u00e9\\"}{<tool_call>"}')],
    ),
    (  # MiniMax M1: a line for each call
        "hunyuan_a13b",
        f"<tool_calls>\n{ONE_OBJECT}\n{JSON_CALL.format('f', NASTY)}\n</tool_calls>",
        "",
        TWO_CALLS,
    ),
    ("phi4_mini_json", f"<|tool_call|>{TWO_OBJECTS}<|/tool_call|>", "", TWO_CALLS),
    (
        "kimi_k2",
        f"Yes.{KIMI_CALL.format('functions.f:0', '')}",
        "Yes.",
        [call("f", "{}")],
    ),
    (
        "qwen3_coder",
        TYPED_CALL.format(
            PARAMETER.format("text", "null")
            + PARAMETER.format("maybe", "None")
            + PARAMETER.format("list", "['it\\'s', True]")
            + PARAMETER.format("flag", "TRUE")
            + PARAMETER.format("count", '"3"')
            + PARAMETER.format("unit", "C")
        ),
        "",
        [
            call(
                "typed",
                '{"text": "null", "maybe": null, "list": ["it\'s", true], '
                '"flag": true, "count": 3, "unit": "C"}',
            )
        ],
    ),
    (
        "qwen3_coder",
        TYPED_CALL.format(
            PARAMETER.format("maybe", "12")
            + PARAMETER.format("list", "a, b")
            + PARAMETER.format("flag", "maybe")
            + PARAMETER.format("count", "1e999")
        ),
        "",
        [
            call(
                "typed",
                '{"maybe": "12", "list": "a, b", "flag": "maybe", "count": 1e999}',
            )
        ],
    ),
    (  # a value that has the tags of values
        "qwen3_coder",
        TYPED_CALL.format(
            PARAMETER.format("text", "<a>\n</parameter>\n</a>\n</function>\n")
        ),
        "",
        [call("typed", r'{"text": "<a>\n</parameter>\n</a>\n</function>\n"}')],
    ),
    (  # closing tags are missing
        "qwen3_coder",
        TYPED_CALL.format("<parameter=text>\na\n<parameter=count>\n3\n"),
        "",
        [call("typed", '{"text": "a", "count": 3}')],
    ),
    (
        "minimax_m2",
        (
            '<minimax:tool_call><invoke name="typed"><parameter name="text">'
            '</parameter></x></parameter><parameter name="count">"4"</parameter>'
            "</invoke></minimax:tool_call>"
        ),
        "",
        [call("typed", '{"text": "</parameter></x>", "count": 4}')],
    ),
    (
        "glm45",
        (
            "<tool_call>typed<arg_key>maybe</arg_key><arg_value>true</arg_value>"
            "<arg_key>text</arg_key><arg_value>a</arg_value> b</arg_value></tool_call>"
        ),
        "",
        [call("typed", '{"maybe": "true", "text": "a</arg_value> b"}')],
    ),
    *[
        (name, f"An <{tag}>, \n", f"An <{tag}>, \n", [])
        for name in TOOL_PARSERS
        for tag in ("tool_call", "think", "|im_start|", "function_calls")
    ],
)
