"""What is known of a model's tokenizer, and which parsers its chat template wants."""

from collections.abc import Sequence

from hookline.tokenizer import Tokenizer
from hookline_models.checking.report import Problems, Severity, TokenizerReport

_MOST_SPECIAL = 12
_Marks = Sequence[tuple[str, tuple[str, ...]]]
_TOOL_MARKS: _Marks = (
    ("<seed:tool_call>", ("seed_oss",)),
    ("<minimax:tool_call>", ("minimax_m2",)),
    ("<longcat_tool_call>", ("longcat",)),
    ("<dots_function_call>", ("dots",)),
    ("]<]minimax[>[", ("minimax_m3",)),
    ("｜DSML｜ invoke", ("deepseek_v41",)),
    ("｜DSML｜", ("deepseek_v32",)),
    ("<｜tool▁sep｜>", ("deepseek_v31", "deepseek_v3")),
    ("<|tool_call_begin|>", ("kimi_k2",)),
    ("<|tool_call_start|>", ("lfm2",)),
    ("<|tool_call>", ("gemma4",)),
    ("<start_function_call>", ("functiongemma",)),
    ("<|tools_prefix|>", ("apertus",)),
    ("<|role_sep|>", ("gigachat3",)),
    ("<|START_TEXT|>", ("cohere_command4",)),
    ("<|START_ACTION|>", ("cohere_command3",)),
    ("plamo:begin_tool_request", ("plamo3",)),
    ("<|open|>", ("kimi_k3",)),
    ("<|channel|>", ("openai",)),
    ("[TOOL_CALLS]", ("mistral",)),
    ("<tool_sep", ("hy_v3",)),
    ("<arg_key:", ("hy_v4",)),
    ("<arg_key>", ("glm45",)),
    ("<function name=", ("minicpm5",)),
    ("<function=", ("qwen3_coder",)),
    ("<function_calls>", ("olmo3",)),
    ("<tool_calls>", ("hunyuan_a13b",)),
    ("functools[", ("phi4_mini_json",)),
    ("<|action_start|>", ("internlm",)),
    ("<tool_call>", ("hermes",)),
    ("<|tool_call|>", ("granite",)),
    ("<|python_start|>", ("llama4_pythonic",)),
    ("<|python_tag|>", ("llama3_json",)),
    ("Environment: ipython", ("llama3_json", "pythonic")),
)
"""Texts of chat templates, and the parsers of the format that they belong to; the first
one that is found tells."""
_REASONING_MARKS: _Marks = (
    ("<seed:think>", ("seed_oss",)),
    ("<mm:think>", ("minimax_m3",)),
    ("[THINK]", ("mistral",)),
    ("<|channel|>", ("openai_gptoss",)),
    ("<|channel>", ("gemma4",)),
    ("<|open|>", ("kimi_k3",)),
    ("<|START_TEXT|>", ("cohere_command4",)),
    ("<|START_THINKING|>", ("cohere_command3",)),
    ("<|inner_prefix|>", ("apertus",)),
    ("plamo:begin_think", ("plamo3",)),
    ("<think:", ("hy_v4",)),
    ("Here is my thought process", ("granite",)),
    ("</think>", ("qwen3", "deepseek_r1")),
)


def examine_tokenizer(
    tokenizer: Tokenizer, vocab_size: int | None, problems: Problems
) -> TokenizerReport:
    """Looks at a tokenizer and its chat template.

    Args:
        tokenizer: The tokenizer.
        vocab_size: The model's number of token ids, if that is known.
        problems: Gets what is wrong.
    """
    tokens = len(tokenizer.inner)
    if vocab_size is not None and tokens > vocab_size:
        problems.add(
            Severity.WARNING,
            f"the tokenizer has {tokens} tokens, and the model {vocab_size}: requests "
            "with the others are refused",
        )
    template = "\n".join(tokenizer.templates.values())
    if not template:
        problems.add(
            Severity.WARNING,
            "it has no chat template: chat needs one (--chat-template)",
        )
    return TokenizerReport(
        tokens=tokens,
        special=tuple(sorted(tokenizer.special_texts)[:_MOST_SPECIAL]),
        has_chat_template=tokenizer.has_chat_template,
        tool_parsers=_marked(_TOOL_MARKS, template)
        or _described(tokenizer, "tool_calls"),
        reasoning_parsers=_marked(_REASONING_MARKS, template)
        or _described(tokenizer, "thinking", "reasoning_content"),
    )


def _marked(marks: _Marks, template: str) -> tuple[str, ...]:
    return next((names for mark, names in marks if mark in template), ())


def _described(tokenizer: Tokenizer, *fields: str) -> tuple[str, ...]:
    """Names the general parser if a response template has one of these fields."""
    given = getattr(tokenizer.inner, "response_template", None)
    named = given.get("fields") if isinstance(given, dict) else None
    return ("hf",) if named and any(field in named for field in fields) else ()
