"""Which parsers `hookline check-model` names, given a chat template."""

from importlib.metadata import entry_points
from types import SimpleNamespace
from typing import Any, cast

from hookline.tokenizer import Tokenizer
from hookline_models.checking.report import Problems, TokenizerReport
from hookline_models.checking.tokenizer import (
    _REASONING_MARKS,
    _TOOL_MARKS,
    examine_tokenizer,
)

FORMATS = {
    # text of a template: tool parser, parser of reasoning
    "<|tool_call>call:{{ name }} <|channel>thought": ("gemma4", "gemma4"),
    "<start_function_call>call:": ("functiongemma", None),
    "{{ '<|open|>' + tag }}": ("kimi_k3", "kimi_k3"),
    "]<]minimax[>[<tool_call> <mm:think>": ("minimax_m3", "minimax_m3"),
    "<｜DSML｜ invoke name= </think>": ("deepseek_v41", "qwen3"),
    "<｜DSML｜invoke name= </think>": ("deepseek_v32", "qwen3"),
    "<|START_ACTION|> <|START_THINKING|>": ("cohere_command3", "cohere_command3"),
    "<|START_ACTION|> <|START_TEXT|>": ("cohere_command4", "cohere_command4"),
    "<tool_calls><tool_call><tool_sep><arg_key>": ("hy_v3", None),
    "<arg_key:opensource> <think:opensource>": ("hy_v4", "hy_v4"),
    "<tool_call><arg_key> </think>": ("glm45", "qwen3"),
    "<|plamo:begin_tool_request:plamo|>": ("plamo3", None),
    "<function name=": ("minicpm5", None),
    "<function=": ("qwen3_coder", None),
    "function call<|role_sep|>": ("gigachat3", None),
    "<|tools_prefix|> <|inner_prefix|>": ("apertus", "apertus"),
    "<dots_function_call>": ("dots", None),
}


class Inner(list[str]):
    """A tokenizer with a response template."""

    response_template: Any = None


def examined(template: str, response_template: object = None) -> TokenizerReport:
    """Returns the report on a tokenizer."""
    inner = Inner()
    inner.response_template = response_template
    tokenizer = SimpleNamespace(
        inner=inner,
        templates={"default": template} if template else {},
        has_chat_template=bool(template),
        special_texts=frozenset[str](),
    )
    return examine_tokenizer(cast(Tokenizer, tokenizer), None, Problems())


def test_templates_name_their_formats() -> None:
    """The first parsers that are named are those of the model's format."""
    found = {}
    for template in FORMATS:
        report = examined(template)
        found[template] = tuple(
            next(iter(names), None)
            for names in (report.tool_parsers, report.reasoning_parsers)
        )

    assert found == FORMATS


def test_a_response_template_is_read_by_the_general_parsers() -> None:
    """Only where the chat template tells of no format, and only for its fields."""
    fields: object = {"fields": {"thinking": {}, "content": {}}}

    report = examined("{{ messages }}", fields)

    assert (report.tool_parsers, report.reasoning_parsers) == ((), ("hf",))
    assert examined("<|channel>", fields).reasoning_parsers == ("gemma4",)


def test_every_named_parser_is_installed() -> None:
    """A misspelt name would send people astray."""
    for kind, marks in (("tool", _TOOL_MARKS), ("reasoning", _REASONING_MARKS)):
        installed = {
            each.name for each in entry_points(group=f"hookline.{kind}_parsers")
        }

        assert {name for _, names in marks for name in names} <= installed
