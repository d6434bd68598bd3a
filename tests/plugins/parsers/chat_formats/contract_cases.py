"""Replies as models write them by mistake, and what they mean.

Reports about vLLM, SGLang, llama.cpp, Ollama and clients of theirs have most of them.
"""

from dataclasses import dataclass

from .formats import (
    DSML,
    HEADER,
    JSON_CALL,
    KIMI_CALL,
    PARIS,
    STEP_CALL,
    V3,
    V3_CALL,
    V31_CALL,
    WEATHER,
    call,
)
from .newer_cases import NEWER_CALLS, NEWER_SLIPS


@dataclass(frozen=True, slots=True)
class Case:
    """A reply.

    Attributes:
        tool: The tool parser; empty for none.
        text: What the model wrote.
        calls: The calls.
        content: The content.
        reasoning: The reasoning.
        parser: The parser of reasoning; empty for none.
        prompt_end: The end of the prompt.
    """

    tool: str
    text: str
    calls: tuple[tuple[str, str], ...] = ()
    content: str = ""
    reasoning: str = ""
    parser: str = ""
    prompt_end: str = ""


W = (WEATHER,)
OBJECT = JSON_CALL.format("get_weather", PARIS)
NESTED = f'{{"type": "function", "function": {OBJECT}}}'
QWEN_CALL = (
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n"
    "</function>\n</tool_call>"
)
GLM_CALL = (
    "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
    "</tool_call>"
)
MINIMAX_CALL = (
    '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris'
    "</parameter>\n</invoke>\n</minimax:tool_call>"
)
DSML_CALL = (
    f'<{DSML}function_calls>\n<{DSML}invoke name="get_weather">\n<{DSML}parameter '
    f'name="city" string="true">Paris</{DSML}parameter>\n</{DSML}invoke>\n'
    f"</{DSML}function_calls>"
)
SEED_CALL = (
    "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n"
    "</function>\n</seed:tool_call>"
)
STEP = (
    "<｜tool_calls_begin｜>"
    + STEP_CALL.format(
        "get_weather", '<steptml:parameter name="city">Paris</steptml:parameter>'
    )
    + "<｜tool_calls_end｜>"
)
KIMI_SECTION = "<|tool_calls_section_begin|>{}<|tool_calls_section_end|>"
KIMI = KIMI_SECTION.format(KIMI_CALL.format("functions.get_weather:0", PARIS))
V31 = V3.format(V31_CALL.format("get_weather", PARIS))
CALLS = {
    "hermes": f"<tool_call>{OBJECT}</tool_call>",
    "granite": f"<|tool_call|>[{OBJECT}]",
    "granite-20b-fc": f"<function_call> {OBJECT}",
    "hunyuan_a13b": f"<tool_calls>[{OBJECT}]</tool_calls>",
    "internlm": f"<|action_start|><|plugin|>{OBJECT}<|action_end|>",
    "longcat": f"<longcat_tool_call>{OBJECT}</longcat_tool_call>",
    "phi4_mini_json": f"functools[{OBJECT}]",
    "xlam": f"```json\n[{OBJECT}]\n```",
    "llama3_json": f"<|python_tag|>{OBJECT}",
    "mistral": f"[TOOL_CALLS][{OBJECT}]",
    "deepseek_v3": V3.format(V3_CALL.format("get_weather", PARIS)),
    "deepseek_v31": V31,
    "deepseek_v32": DSML_CALL,
    "kimi_k2": KIMI,
    "glm45": GLM_CALL,
    "minimax_m2": MINIMAX_CALL,
    "qwen3_coder": QWEN_CALL,
    "seed_oss": SEED_CALL,
    "step3": STEP,
    "pythonic": '<|python_start|>[get_weather(city="Paris")]<|python_end|>',
    "lfm2": '<|tool_call_start|>[get_weather(city="Paris")]<|tool_call_end|>',
    "olmo3": '<function_calls>\nget_weather(city="Paris")\n</function_calls>',
    "openai": f"<|start|>assistant{HEADER}{PARIS}<|call|>",
    **NEWER_CALLS,
}
"""A call in each format."""
BARE = {
    "llama3_json": OBJECT.replace("arguments", "parameters"),
    "pythonic": '[get_weather(city="Paris")]',
    "xlam": f"[{OBJECT}]",
    "hermes": OBJECT,
    "mistral": f"[{OBJECT}]",
}
"""A call without a tag."""
HERMES_ARGUMENTS = {
    # what a model wrote, what it means
    '{"a": "one\ntwo\tthree"}': '{"a": "one\\ntwo\\tthree"}',
    '{"a": "\\d+ C:\\program"}': '{"a": "\\\\d+ C:\\\\program"}',
    '{"a": "it\\\'s \\x41 \\u12"}': '{"a": "it\'s \\\\x41 \\\\u12"}',
    "{'a': True, 'b': [None, False]}": '{"a": true, "b": [null, false]}',
    "{'a': 'it\\'s \"so\"'}": '{"a": "it\'s \\"so\\""}',
    "{'a': 'it's'}": '{"a": "it\'s"}',
    '{"a": 1, "b": [1, 2,],}': '{"a": 1, "b": [1, 2]}',
    '{"a": 1 "b": 2}': '{"a": 1 ,"b": 2}',
    "{a: 1, b: text here}": '{"a": 1, "b": "text here"}',
    '{"a": "say "hi" now"}': '{"a": "say \\"hi\\" now"}',
    '{"a": NaN, "b": 01}': '{"a": "NaN", "b": "01"}',
    '{"a": // why\n 1}': '{"a":  1}',
    '{"a": [1, 2}': '{"a": [1, 2]}',
    '"{\\"a\\": 1}"': '{"a": 1}',
    "null": "{}",
    '["x"]': '{"value": ["x"]}',
}
"""The arguments of a call of Hermes."""

CASES: tuple[Case, ...] = (
    *[Case(name, text, calls, content) for name, text, calls, content in NEWER_SLIPS],
    # A call ends reasoning that is never closed, in every format.
    *[
        Case(name, f"Hm, I look.\n{text}", W, reasoning="Hm, I look.", parser=parser)
        for name, text in CALLS.items()
        for parser in ("deepseek_r1", "ernie45")
        if name != "openai"
    ],
    *[
        Case(name, f"Hm.\n{text}", W, "", "Hm.", "seed_oss", "<seed:think>")
        for name, text in CALLS.items()
        if name != "openai"
    ],
    # Behind the reasoning a call needs no tag where it needs none at the start.
    *[
        Case(name, f"<think>Hm.</think>\n\n{text}", W, "", "Hm.", "qwen3")
        for name, text in BARE.items()
        if name != "mistral"
    ],
    *[Case(name, text, W) for name, text in BARE.items()],
    # Tags of reasoning within arguments are text; behind a call they are tags.
    Case(
        "hermes",
        (
            'a<tool_call>{"name": "f", "arguments": {"a": "</think><think>"}}'
            "</tool_call></think><think>b</think>c"
        ),
        (call("f", '{"a": "</think><think>"}'),),
        "c",
        "ab",
        "qwen3",
        "<think>",
    ),
    # Later blocks and stray tags
    Case("", "<think>a</think>b<think>c</think>d", (), "bd", "ac", "qwen3"),
    Case("", "<think><think>a</think></think>b", (), "b", "a", "qwen3"),
    Case("", "a</think>\n\nb </think>", (), "a\n\nb ", "", "qwen3", "</think>"),
    Case(
        "",
        'Write `<think>`, "</think>":\n```\n</think>\n```\n</think>ok',
        (),
        'Write `<think>`, "</think>":\n```\n</think>\n```\nok',
        "",
        "qwen3",
    ),
    Case("", "[THINK]a[/THINK]b[THINK]c[/THINK]d[/THINK]", (), "bd", "ac", "mistral"),
    Case("", "<answer>\na\n</answer>\n</answer>", (), "a", "", "hunyuan_a13b"),
    Case("", "a</seed:think>b</seed:think>", (), "b", "a", "seed_oss", "<seed:think>"),
    # Arguments
    *[
        Case(
            "hermes",
            f'<tool_call>{{"name": "f", "arguments": {text}}}</tool_call>',
            (call("f", arguments),),
        )
        for text, arguments in HERMES_ARGUMENTS.items()
    ],
    *[
        Case(name, text.replace("is", "i\ns"), (call("get_weather", arguments),))
        for name, text in CALLS.items()
        if '"arguments"' in text or "json" in text or "sep" in text or name == "kimi_k2"
        for arguments in ['{"city": "Pari\\ns"}']
        if name not in ("step3", "openai")
    ],
    Case(
        "kimi_k2",
        KIMI_CALL.format("functions.f:0", "{'a': 'b',}"),
        (call("f", '{"a": "b"}'),),
    ),
    Case(
        "deepseek_v31",
        V31_CALL.format("f", '{"a": {"b": 1}'),
        (call("f", '{"a": {"b": 1}}'),),
    ),
    Case("openai", f"{HEADER}{{city: Paris", W),
    Case("mistral", '[TOOL_CALLS]f[ARGS]{"a": tru', (call("f", '{"a": true}'),)),
    Case("llama3_json", '{"name": "f", "parameters": {"a', (call("f", '{"a": null}'),)),
    # Hermes
    Case("hermes", f"<tool_call>{NESTED}</tool_call>", W),
    Case("hermes", f"<tool_call>\n{OBJECT.replace('arguments', 'parameters')}", W),
    Case("hermes", str(f"<tool_call>{OBJECT}").replace('"', "'"), W),
    Case("hermes", f"So:\n{QWEN_CALL}\n{GLM_CALL}", W * 2, "So:"),
    Case("hermes", QWEN_CALL.removeprefix("<tool_call>"), W),
    Case("hermes", f"```json\n{OBJECT}\n```", W),
    Case(
        "hermes",
        '<tool_call>{"name": "get_weather", "city": "Paris"}</tool_call></tool_call>',
        W,
    ),
    Case("hermes", '<tool_call>{"get_weather": {"city": "Paris"}}</tool_call>', W),
    Case(
        "hermes",
        '<tool_call>{"name": "functions.get_weather", "args": {"city": "Paris"}}',
        W,
    ),
    Case("hermes", "<tool_call>get_weather</tool_call>", (call("get_weather", "{}"),)),
    Case("hermes", f"<tool_call>get_weather\n{PARIS}</tool_call>", W),
    Case(
        "hermes",
        f"</tool_call>\n<tool_call>{OBJECT}</tool_call>\n</tool_call>b",
        W,
        "b",
    ),
    Case("hermes", f"<tool_call>{OBJECT}}}\n</tool_call>", W),
    Case("hermes", f"<tool_call>{OBJECT}, {OBJECT}</tool_call>, a", W * 2, ", a"),
    Case("hermes", f"<tool_call>\n```json\n{OBJECT}\n```\n</tool_call>", W),
    # Others with JSON
    Case("llama3_json", f"a <function=get_weather>{PARIS}</function>", W, "a"),
    Case("qwen3_coder", f"<function=get_weather>\n{PARIS}\n</function>", W),
    *[
        Case(name, text.replace(OBJECT, NESTED), W)
        for name, text in CALLS.items()
        if OBJECT in text
    ],
    Case("mistral", f"[TOOL_CALLS]functions.get_weather [ARGS] {PARIS}", W),
    Case("mistral", f"[TOOL_CALLS]get_weather[ARGS]{PARIS}[ARGS]a", W, "a"),
    Case("llama3_json", f"I look.\n{BARE['llama3_json']}<|eom_id|>", W, "I look."),
    Case("llama3_json", f"```\n{OBJECT}\n```", (), f"```\n{OBJECT}\n```"),
    Case(
        "llama3_json",
        '{"type": "function", "name": "get_weather", "parameters": {"city": "Paris"}}',
        W,
    ),
    Case(
        "phi4_mini_json", f"a<|tool_call|>{OBJECT}<|/tool_call|><|tool_call|>", W, "a"
    ),
    Case("internlm", "a<|action_end|>b<|action_start|><|plugin|>", (), "ab"),
    Case("longcat", "a</longcat_tool_call>b", (), "ab"),
    Case("granite", f"<tool_call>{OBJECT}</tool_call>", W, "</tool_call>"),
    Case("granite-20b-fc", "<function_call>no", (), "<function_call>no"),
    Case("hunyuan_a13b", f"{CALLS['hunyuan_a13b']}</tool_calls>", W),
    Case("xlam", f"a <tool_call>{OBJECT}", W, "a"),
    # Qwen3-Coder
    Case("qwen3_coder", f"<tool_call>\n{OBJECT}\n</tool_call>", W),
    Case("qwen3_coder", f"<tool_call>{NESTED}</tool_call> {GLM_CALL}", W * 2),
    Case(
        "qwen3_coder", f"I look.{QWEN_CALL.removeprefix('<tool_call>')}", W, "I look."
    ),
    Case("qwen3_coder", QWEN_CALL.replace("=get_weather", '="get_weather"'), W),
    Case("qwen3_coder", QWEN_CALL.replace("=city", ' name="city"'), W),
    Case("qwen3_coder", QWEN_CALL.replace("\n</parameter>", ""), W),
    Case("qwen3_coder", QWEN_CALL.replace("</parameter>\n</function>\n", ""), W),
    Case(
        "qwen3_coder",
        "A <function=name> has </tool_call>.",
        (),
        "A <function=name> has </tool_call>.",
    ),
    Case("qwen3_coder", "Use `</tool_call>`.", (), "Use `</tool_call>`."),
    # MiniMax, DeepSeek V3.2, Seed-OSS, Step 3
    Case("minimax_m2", MINIMAX_CALL.replace('"', "'"), W),
    Case("minimax_m2", MINIMAX_CALL.replace('"', ""), W),
    Case("minimax_m2", MINIMAX_CALL.removeprefix("<minimax:tool_call>"), W),
    Case("minimax_m2", f"<minimax:tool_call>{OBJECT}</minimax:tool_call>", W),
    Case("minimax_m2", "a<minimax:tool_call>b</minimax:tool_call>", (), "ab"),
    Case("deepseek_v32", DSML_CALL.replace("</｜DSML｜parameter>", ""), W),
    Case("deepseek_v32", DSML_CALL.replace(' string="true"', ""), W),
    Case("deepseek_v32", f"{DSML_CALL}\n</{DSML}function_calls>a", W, "a"),
    Case("seed_oss", f"<seed:tool_call>{OBJECT}</seed:tool_call>", W),
    Case("seed_oss", SEED_CALL.replace("</parameter>", ""), W),
    Case("seed_oss", "a</seed:tool_call>b<seed:tool_call>", (), "ab"),
    Case("step3", STEP.replace("<｜tool_call_begin｜>function<｜tool_sep｜>", ""), W),
    Case("step3", STEP.replace("<｜tool_calls_end｜>", "<｜tool_calls_end｜>" * 2), W),
    Case("step3", "a<｜tool_sep｜>b<｜tool_call_end｜>", (), "ab"),
    # GLM
    Case("glm45", GLM_CALL.removeprefix("<tool_call>"), W),
    Case("glm45", f"I look.\n{GLM_CALL.removeprefix('<tool_call>')}", W, "I look."),
    Case("glm45", GLM_CALL.replace("\n<arg_key>", "", 1), W),
    Case("glm45", GLM_CALL.replace("<arg_key>", " ", 1), W),
    Case("glm45", GLM_CALL.replace("<arg_key>", "<tool_call>", 1), W),
    Case("glm45", GLM_CALL.replace("</arg_key>", "</arg_key></arg_key>"), W),
    Case("glm45", GLM_CALL.replace("<arg_value>", ""), W),
    Case("glm45", GLM_CALL.replace("</arg_value>\n", ""), W),
    Case(
        "glm45",
        GLM_CALL.replace(
            "</arg_value>", "</arg_value>days</arg_key><arg_value>3</arg_value>"
        ),
        (call("get_weather", '{"city": "Paris", "days": 3}'),),
    ),
    Case("glm45", f"<tool_call>{OBJECT}</tool_call>\n{QWEN_CALL}", W * 2),
    Case("glm45", "The <arg_key> of city", (), "The <arg_key> of city"),
    # Kimi
    Case(
        "kimi_k2",
        KIMI_SECTION.format(
            f"I look.\n{KIMI_CALL.format('functions.get_weather:0', PARIS)}"
        ),
        W,
        "I look.",
    ),
    *[
        Case("kimi_k2", KIMI.replace("functions.get_weather:0", name), W)
        for name in ("get_weather", "functions.get_weather", "get_weather:3")
    ],
    Case("kimi_k2", KIMI.replace("<|tool_call_argument_begin|>", " "), W),
    Case("kimi_k2", KIMI.replace("<|tool_call_begin|>", ""), W),
    Case("kimi_k2", "a<|tool_calls_section_end|>b<|tool_call_end|>", (), "ab"),
    Case("kimi_k2", KIMI_SECTION.format("no call"), (), "no call"),
    # DeepSeek
    Case("deepseek_v3", V31, W),
    Case("deepseek_v31", CALLS["deepseek_v3"], W),
    Case("deepseek_v31", V31.replace("<｜tool▁sep｜>", "\n"), W),
    Case("deepseek_v31", V31.replace("<｜tool▁call▁begin｜>", ""), W),
    Case("deepseek_v31", V31.replace("<｜tool▁calls▁begin｜>", "<｜tool▁calls｜>"), W),
    Case("deepseek_v3", V3.format("a") + "b<｜tool▁sep｜>", (), "ab"),
    Case(
        "deepseek_v3",
        CALLS["deepseek_v3"].replace("```json\n", "").replace("\n```", ""),
        W,
    ),
    # Python
    Case("pythonic", f"I look.\n{BARE['pythonic']}", W, "I look."),
    Case("pythonic", 'get_weather(city="Paris")', W),
    Case("pythonic", '[get_weather("Paris")]', W),
    Case("pythonic", '[get_weather(city="Pa', (call("get_weather", '{"city": "Pa"}'),)),
    Case("lfm2", f"{CALLS['lfm2']}<|tool_call_end|>a", W, "a"),
    Case("lfm2", "<|tool_call_start|>no<|tool_call_end|>", (), "no"),
    Case("olmo3", f"{CALLS['olmo3']}\n</function_calls>", W),
    # gpt-oss
    Case(
        "openai",
        "<|channel|>analysis<|message|>Hm.<|channel|>final<|message|>Hi.<|return|>",
        (),
        "Hi.",
        "Hm.",
        "openai_gptoss",
    ),
    Case(
        "",
        "<|channel|>analysis<|message|>Hm.<|start|>assistant<|channel|>final<|message|>Hi.",
        (),
        "Hi.",
        "Hm.",
        "openai_gptoss",
    ),
    Case(
        "openai",
        f"<|channel|>analysis<|message|>Hm.{HEADER}{PARIS}",
        W,
        "",
        "Hm.",
        "openai_gptoss",
    ),
    Case(
        "openai",
        (
            f"{HEADER}{PARIS}<|start|>assistant<|channel|>commentary to=get_weather "
            f"<|constrain|>json<|message|>{PARIS}<|end|>"
        ),
        W * 2,
    ),
    Case("openai", f"{HEADER.removesuffix('<|message|>')}{PARIS}<|call|>", W),
    Case(
        "openai",
        f"<|channel|>analysis to=functions.get_weather code<|message|>{PARIS}",
        W,
    ),
    Case("openai", "<|channel|>analysis<|channel|>final<|message|>Hi.", (), "Hi."),
    Case("openai", "<|channel|>comment<|message|>Hi.<|end|><|end|>b", (), "Hi.b"),
    Case("openai", f"<|channel|>{'no header ' * 200}", (), "no header " * 200),
)
