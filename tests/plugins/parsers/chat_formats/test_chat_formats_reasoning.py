"""Reasoning in each format, however the text is cut."""

from importlib.metadata import entry_points

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookline.structured_outputs import ReasoningSpan
from hookline_chat_formats.hf import TemplateReasoningParser
from hookline_server.reply_parsing.reasoning_parser import (
    ReasoningBeforeGrammar,
    ReasoningParserContext,
)

from .formats import REASONING_PARSERS, Reply, read
from .newer_formats import NEWER_REASONING
from .test_chat_formats_calls import PIECES, cut

ANALYSIS = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
CALL = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>"

TAGS = (
    *("<think>", "</think>", "[THINK]", "[/THINK]", "<seed:think>", "</seed:think>"),
    *("<answer>", "</answer>", "<response>", "</response>", "Here is my response:"),
    *("Here's my thought process:", "Here's"),
)
"""What marks reasoning."""

REPLIES = (
    # parser, end of the prompt, reply, reasoning, content
    ("qwen3", "assistant\n", "<think>\nHm.\n\n</think>\n\nHi.\n", "Hm.", "Hi.\n"),
    ("qwen3", "assistant\n", "Hi. </think>\n", "", "Hi. "),
    ("qwen3", "assistant\n", " \nHi.", "", " \nHi."),
    ("qwen3", "assistant\n<think>\n", "Hm.</think>Hi.", "Hm.", "Hi."),
    ("qwen3", "<think>\n\n</think>\n\n", "Hi. <think>", "", "Hi. "),
    ("qwen3", "<think>", "Hm. </thin", "Hm. </thin", ""),
    ("qwen3", "<think>", "", "", ""),
    ("qwen3", "", "<think></think>", "", ""),
    ("deepseek_r1", "", "Hm.\n\nSo.</think>\n\nHi.", "Hm.\n\nSo.", "Hi."),
    ("deepseek_r1", "", "<think>Hm.</think>Hi.", "Hm.", "Hi."),
    ("deepseek_r1", "", "Hm.", "Hm.", ""),
    ("deepseek_r1", "</think>", "Hi.", "", "Hi."),
    ("openai_gptoss", "", f"{ANALYSIS}<|channel|>final<|message|>Hi.", "Hm.", "Hi."),
    ("openai_gptoss", "", "<|channel|>analysis<|message|>Hm", "Hm", ""),
    ("openai_gptoss", "", "Hi.", "", "Hi."),
    ("seed_oss", "", "<seed:think>Hm.</seed:think>Hi.", "Hm.", "Hi."),
    ("mistral", "", "[THINK]Hm.[/THINK]\nHi.", "Hm.", "Hi."),
    (
        "granite",
        "",
        "Here's my thought process: Hm.\n\nHere is my response: Hi.",
        "Hm.",
        "Hi.",
    ),
    ("granite", "", "Here is something.", "", "Here is something."),
    (
        "hunyuan_a13b",
        "",
        "<think>\nHm.\n</think>\n<answer>\nHi. \n</answer>\n",
        "Hm.",
        "Hi.",
    ),
    ("hunyuan_a13b", "</think>\n", " Hi. </answer>", "", " Hi."),
    ("ernie45", "", "Hm.\n</think>\n\n<response>\nHi.\n</response>\n", "Hm.", "Hi."),
    ("ernie45", "", "Hm.</think>Hi.", "Hm.", "Hi."),
    # Later blocks are reasoning, and stray tags are nothing, but in code.
    ("qwen3", "<think>", "Hm.</think>Hi <think>So.</think> you.", "Hm.So.", "Hi you."),
    *NEWER_REASONING,
)


def test_every_installed_parser_is_tested() -> None:
    """
    Names of one class are tested once; response templates have tests of their own.
    """
    classes = {
        each.load()
        for each in entry_points(group="hookline.reasoning_parsers")
        if each.value.startswith("hookline_chat_formats")
    }

    assert classes == {*REASONING_PARSERS.values(), TemplateReasoningParser}
    assert {name for name, *_ in REPLIES} == set(REASONING_PARSERS)


@pytest.mark.parametrize(
    ("name", "prompt_end", "text", "reasoning", "content"),
    REPLIES,
    ids=range(len(REPLIES)),
)
def test_reply_says_what_it_should(
    name: str, prompt_end: str, text: str, reasoning: str, content: str
) -> None:
    """
    At once, a character at a time and otherwise cut, the parts say the same.
    """
    context = ReasoningParserContext(prompt_end=prompt_end)
    for pieces in ([text], list(text), cut(text, 1), cut(text, 2)):
        said = read(REASONING_PARSERS[name](context), pieces)

        assert (said.reasoning, said.content) == (reasoning, content)


@pytest.mark.parametrize("name", sorted(REASONING_PARSERS))
@settings(deadline=None, max_examples=100)
@given(
    parts=st.lists(st.sampled_from([*PIECES, *TAGS]), max_size=40),
    prompt_end=st.sampled_from(["", "<think>", "</think>\n"]),
    seed=st.integers(0, 1000),
)
def test_any_text_says_the_same_however_it_is_cut(
    name: str, parts: list[str], prompt_end: str, seed: int
) -> None:
    """
    Joined parts do not depend on the pieces.
    """
    text, context = "".join(parts), ReasoningParserContext(prompt_end=prompt_end)

    whole = read(REASONING_PARSERS[name](context), [text])
    pieces = read(REASONING_PARSERS[name](context), cut(text, seed))

    assert (pieces.reasoning, pieces.content) == (whole.reasoning, whole.content)


def test_nothing_in_a_structured_output_is_a_tag() -> None:
    """
    Behind the reasoning, the text of a structured output or a forced call is kept.
    """
    context = ReasoningParserContext(prompt_end="<think>", is_structured=True)
    content = '{"a": "<think></think>"}</think>'

    said = read(REASONING_PARSERS["qwen3"](context), [f"Hm.</think>{content}"])

    assert (said.reasoning, said.content) == ("Hm.", content)


def test_reasoning_is_known_while_it_lasts() -> None:
    """
    Tokens are counted by it: from the opening tag to the closing one.
    """
    parser = REASONING_PARSERS["qwen3"](ReasoningParserContext(prompt_end=""))
    states = []

    for piece in ("<think>", "Hm", ".", "</think>", "Hi"):
        parser.push(piece)
        states.append(parser.is_reasoning)

    assert states == [True, True, True, False, False]


@pytest.mark.parametrize(
    ("name", "prompt_end", "span"),
    [
        ("qwen3", "", ReasoningSpan(begin="<think>", is_optional=True, end="</think>")),
        ("qwen3", "<think>\n", ReasoningSpan(end="</think>")),
        ("qwen3", "<think>\n\n</think>\n\n", None),
        ("deepseek_r1", "", ReasoningSpan(end="</think>")),
        ("hunyuan_a13b", "<think>", ReasoningSpan(end="</think>", lead="\n<answer>\n")),
        (
            "openai_gptoss",
            "",
            ReasoningSpan(
                begin="<|channel|>analysis<|message|>",
                end="<|end|>",
                lead="<|start|>assistant<|channel|>final<|message|>",
            ),
        ),
    ],
)
def test_a_grammar_learns_where_reasoning_ends(
    name: str, prompt_end: str, span: ReasoningSpan | None
) -> None:
    """
    What precedes a structured output is read as reasoning, and the rest is content.
    """
    context = ReasoningParserContext(prompt_end=prompt_end)
    parser = REASONING_PARSERS[name](context)

    assert isinstance(parser, ReasoningBeforeGrammar)
    assert parser.reasoning_span == span
    text = "" if span is None else f"{span.begin}Hm.{span.end}{span.lead}"
    said = read(parser, [text, '{"a": 1}'])
    assert said.content == '{"a": 1}'
    assert said.reasoning == ("Hm." if span else "")


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_calls_behind_reasoning_of_gpt_oss_are_found(size: int) -> None:
    """
    The two parsers of this format find the same reasoning and content together.
    """
    text = (
        f'{ANALYSIS}{CALL}{{"a": 1}}<|call|><|start|>assistant{ANALYSIS}'
        "<|channel|>final<|message|>Hi.<|return|>"
    )
    pieces = [text[start : start + size] for start in range(0, len(text), size)]

    said = Reply(tool="openai", reasoning="openai_gptoss").read(pieces)

    assert said.reasoning == "Hm.Hm."
    assert said.calls == [("f", '{"a": 1}')]
    assert said.content == "Hi."
