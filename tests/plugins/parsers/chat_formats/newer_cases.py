"""What models of 2026 write by mistake: format, text, calls and content."""

from collections.abc import Sequence

from .newer_formats import M3, PARIS, WEATHER, element, hy, kimi, minimax, plamo3

Slips = Sequence[tuple[str, str, tuple[tuple[str, str], ...], str]]

OBJECT = f'{{"name": "get_weather", "arguments": {PARIS}}}'
W = (WEATHER,)
NEWER_CALLS = {
    "apertus": f'<|tools_prefix|>[{{"get_weather": {PARIS}}}]<|tools_suffix|>',
    "cohere_command3": (
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "get_weather", '
        f'"parameters": {PARIS}}}]<|END_ACTION|>'
    ),
    "deepseek_v41": (
        '<｜DSML｜ calls>\n<｜DSML｜ invoke name="get_weather">\n<｜DSML｜ parameter '
        'name="city" string="true">Paris</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n'
        "</｜DSML｜ calls>"
    ),
    "dots": (
        '<dots_function_call>\n<invoke name="get_weather">\n<parameter name="city">Pa'
        "ris</parameter>\n</invoke>\n</dots_function_call>"
    ),
    "functiongemma": (
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>}"
        "<end_function_call>"
    ),
    "gemma4": '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>}<tool_call|>',
    "gigachat3": f"<|function_call|>{OBJECT}",
    "hy_v4": f"<tool_calls:x>{hy('get_weather', 'city=Paris', ':x')}</tool_calls:x>",
    "kimi_k3": f"<|open|>tools<|sep|>{kimi('get_weather', city='Paris')}"
    "<|close|>tools<|sep|>",
    "minicpm5": (
        '<function name="get_weather"><param name="city">Paris</param></function>'
    ),
    "minimax_m3": minimax(("get_weather", element("city", "Paris"))),
    "plamo3": f"<|plamo:begin_tool_requests:plamo|>{plamo3('get_weather', PARIS)}"
    "<|plamo:end_tool_requests:plamo|>",
}
"""A call in each format."""

NEWER_SLIPS: Slips = (
    # Gemma: JSON, plain quotes, no closing brace, no token, another mark in a text
    ("gemma4", f"<|tool_call>{OBJECT}<tool_call|>", W, ""),
    ("gemma4", '<|tool_call>call:get_weather{"city":"Paris"}<tool_call|>', W, ""),
    (
        "gemma4",
        '<|tool_call>call:get_weather{city:<|"|>Paris<|"|><tool_call|>a',
        W,
        "a",
    ),
    ("gemma4", "<|tool_call>call:get_weather{city:Paris}<turn|>", W, ""),
    ("gemma4", '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>}a', W, "a"),
    ("gemma4", '<|tool_call>call:get_weather{city:<|"|>Paris', W, ""),
    (
        "gemma4",
        '<|tool_call>call:f{a:[1,{b:2},c:<|"|>]<|"|>}<tool_call|>',
        (("f", '{"a": [1, {"b": 2}, "c:<|\\"|>"]}'),),
        "",
    ),
    ("functiongemma", "<start_function_call>call:get_weather{city:Paris}", W, ""),
    ("functiongemma", "a<end_function_call>b", (), "ab"),
    # Kimi K3: no index, an argument that is not closed, JSON, no end
    (
        "kimi_k3",
        (
            '<|open|>call tool="get_weather"<|sep|>'
            '<|open|>argument key="city"<|sep|>Paris'
            "<|close|>call<|sep|>a"
        ),
        W,
        "a",
    ),
    (
        "kimi_k3",
        f'<|open|>call tool="get_weather" index="1"<|sep|>{PARIS}<|close|>call<|sep|>',
        W,
        "",
    ),
    (
        "kimi_k3",
        kimi("get_weather", city="Paris").replace("<|close|>call<|sep|>", ""),
        W,
        "",
    ),
    ("kimi_k3", "<|open|>call <|sep|>a<|close|>call<|sep|>", (), "a"),
    # MiniMax M3: as M2, JSON, tags that are not closed
    (
        "minimax_m3",
        (
            f'{M3}<tool_call>{M3}<invoke name="get_weather">{M3}'
            f'<parameter name="city">Paris'
            f"{M3}</parameter>{M3}</invoke>{M3}</tool_call>a"
        ),
        W,
        "a",
    ),
    ("minimax_m3", f"{M3}<tool_call>{OBJECT}{M3}</tool_call>", W, ""),
    ("minimax_m3", minimax(("get_weather", PARIS)), W, ""),
    (
        "minimax_m3",
        f"{M3}<invoke name='get_weather'>{M3}<city>Paris{M3}</invoke>",
        W,
        "",
    ),
    (
        "minimax_m3",
        f"{M3}<tool_call>no{M3}</tool_call>",
        (),
        "<tool_call>no</tool_call>",
    ),
    # Command
    ("cohere_command3", f"<|START_ACTION|>{OBJECT}<|END_ACTION|>", W, ""),
    (
        "cohere_command3",
        f'<|START_ACTION|>[{{"tool_name": "get_weather", "parameters": {PARIS}',
        W,
        "",
    ),
    ("cohere_command3", "<|START_ACTION|>no<|END_ACTION|>", (), "no"),
    # GigaChat, Apertus
    ("gigachat3", f"<|function_call|>{OBJECT[:-1]}", W, ""),
    ("gigachat3", "<|function_call|>no<|message_sep|>", (), "no"),
    ("gigachat3", f"function call<|role_sep|>\n{OBJECT}</s>", W, ""),
    ("apertus", f"<|tools_prefix|>[{OBJECT}]<|tools_suffix|>", W, ""),
    ("apertus", f'<|tools_prefix|>{{"get_weather": {PARIS}}}<|tools_suffix|>a', W, "a"),
    ("apertus", f'<|tools_prefix|>[{{"get_weather": {PARIS[:-1]}', W, ""),
    # PLaMo: no section
    ("plamo3", plamo3("get_weather", PARIS), W, ""),
    ("plamo3", f"a{plamo3('get_weather', PARIS)}"[:-40], W, "a"),
    ("plamo3", "a<|plamo:end_tool_requests:plamo|>b", (), "ab"),
    # Parameters and keys in tags
    ("deepseek_v41", f"<｜DSML｜ calls>{OBJECT}</｜DSML｜ calls>", W, ""),
    ("deepseek_v41", "a</｜DSML｜ calls>b", (), "ab"),
    (
        "dots",
        "<dots_function_call>no</dots_function_call>",
        (),
        "<dots_function_call>no</dots_function_call>",
    ),
    (
        "dots",
        '<invoke name="get_weather"><parameter name="city">Paris</parameter>',
        W,
        "",
    ),
    ("hy_v4", hy("get_weather", "city=Paris"), W, ""),
    ("hy_v4", f"<tool_call:x>{OBJECT}</tool_call:x>", W, ""),
    ("minicpm5", NEWER_CALLS["minicpm5"].replace("</param>", ""), W, ""),
    (
        "minicpm5",
        '<function name="who"></function>',
        (),
        '<function name="who"></function>',
    ),
)
