"""The contract that all parsers of replies keep to, however a model slips."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .contract_cases import BARE, CALLS, CASES
from .formats import (
    REASONING_PARSERS,
    REPLIES,
    TOOL_PARSERS,
    TOOLS,
    WEATHER,
    Reply,
    Said,
)
from .newer_formats import M3
from .test_chat_formats_calls import PIECES, cut
from .test_chat_formats_reasoning import TAGS
from .untidy_formats import UNTIDY_REPLIES

MUTATIONS = ("delete", "double", "swap", "insert", "truncate")
FORMATS = sorted(TOOL_PARSERS)


def refuse(constant: str) -> None:
    raise ValueError(constant)


def broken_rules(reply: Reply, said: Said) -> list[str]:
    """What the contract forbids in what a reply says."""
    found = []
    for name, arguments in said.calls:
        try:
            value = json.loads(arguments, parse_constant=refuse)
        except ValueError as error:
            found.append(f"{name}({arguments}): {error}")
        else:
            if not isinstance(value, dict):
                found.append(f"{name}({arguments}) is no object")
    tokens: set[str] = set()
    if reply.tool is not None:
        tokens |= set(getattr(TOOL_PARSERS[reply.tool](TOOLS), "control_tokens", ()))
    found += [
        f"{token!r} in {text!r}"
        for token in tokens
        for text in (said.content, said.reasoning)
        if token in text
    ]
    found += [f"failed: {each}" for each in reply.counts.stats().failures]
    return found


def test_slips_of_models_are_understood() -> None:
    """
    Each means the same at once, a character at a time and otherwise cut.
    """
    faults = []
    for case in CASES:
        for pieces in ([case.text], list(case.text), cut(case.text, 1)):
            reply = Reply(
                tool=case.tool or None,
                reasoning=case.parser or None,
                prompt_end=case.prompt_end,
            )
            said = reply.read(pieces)
            got = (tuple(said.calls), said.content, said.reasoning)
            if got != (case.calls, case.content, case.reasoning):
                faults.append(f"{case.tool} {case.parser} {case.text!r}: {got}")
            faults += broken_rules(reply, said)

    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("gemma4", "<|tool_call>call:get_weather{at once,city:Paris}<tool_call|>"),
        (
            "kimi_k3",
            (
                '<|open|>call tool="get_weather"<|sep|>'
                '<|open|>argument key="city"<|sep|>Paris<|close|>argument<|sep|>'
                "<|open|>argument at once<|sep|><|close|>call<|sep|>"
            ),
        ),
        (
            "minimax_m3",
            f'{M3}<invoke name="get_weather">{M3}<city>Paris{M3}</city>{M3}<at once',
        ),
    ],
)
def test_words_among_arguments_come_behind_the_call(tool: str, text: str) -> None:
    """
    They neither end the arguments nor get lost.
    """
    for pieces in ([text], list(text)):
        said = Reply(tool=tool, reasoning=None, prompt_end="").read(pieces)

        assert ([*said.calls], said.content) == ([WEATHER], "at once")


def test_every_format_has_slips() -> None:
    """
    A format whose slips nobody has tried fails here.
    """
    tried = [case.tool for case in CASES]

    assert {name for name in FORMATS if tried.count(name) >= 3} == set(FORMATS)
    assert set(CALLS) == set(FORMATS)


def mutated(text: str, chance: random.Random) -> str:
    """Returns a reply with a few faults, most of them at the edges of tags."""
    for _ in range(chance.randint(0, 3)):
        edges = [at for at, each in enumerate(text) if each in '<>[]{}"|\n,:']
        at, end = sorted(chance.choices([*edges, 0, len(text)], k=2))
        match chance.choice(MUTATIONS):
            case "delete":
                text = text[:at] + text[min(end, at + 40) :]
            case "double":
                text = text[:end] + text[at:end][:60] + text[end:]
            case "swap":
                text = text[:at] + text[at:end][::-1][:9] + text[end:]
            case "insert":
                text = text[:at] + chance.choice([*PIECES, *TAGS]) + text[at:]
            case _:
                text = text[:end] if end else text
    return text


WHOLE = {
    name: [
        CALLS[name],
        *[text for tool, text, *_ in (*REPLIES, *UNTIDY_REPLIES) if tool == name],
        *[case.text for case in CASES if case.tool == name],
    ]
    for name in FORMATS
}


@pytest.mark.parametrize("name", FORMATS)
@settings(deadline=None, max_examples=25, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    reasoning=st.sampled_from([None, *sorted(REASONING_PARSERS)]),
    prompt_end=st.sampled_from(["", "<think>", "</think>\n"]),
)
def test_mutated_replies_keep_to_the_contract(
    name: str, seed: int, reasoning: str | None, prompt_end: str
) -> None:
    """
    At every split the same, with arguments that are JSON and no control token.
    """
    chance = random.Random(seed)  # noqa: S311 - no secret
    text = mutated("".join(chance.choices(WHOLE[name], k=2)), chance)
    whole = Reply(tool=name, reasoning=reasoning, prompt_end=prompt_end)
    split = Reply(tool=name, reasoning=reasoning, prompt_end=prompt_end)

    said, pieces = whole.read([text]), split.read(cut(text, seed))

    assert (pieces.content, pieces.reasoning, pieces.calls) == (
        said.content,
        said.reasoning,
        said.calls,
    ), text
    assert not broken_rules(whole, said), text
    repairs = (set(each.counts.stats().repairs) for each in (whole, split))
    assert next(repairs) == next(repairs), text


PLAIN_MARKS = ("phi4_mini_json", "xlam")
"""Formats whose marks are words, or begin code: they stay where a call may not come."""


def starts(said: Said, whole: Said) -> bool:
    """Whether a reply says the start of what another one says."""
    names, others = ([name for name, _ in each.calls] for each in (said, whole))
    complete = said.calls[:-1]
    return (
        whole.content.startswith(said.content.rstrip())
        and whole.reasoning.startswith(said.reasoning.rstrip())
        and others[: len(names)] == names
        and whole.calls[: len(complete)] == complete
    )


def told(said: Said) -> tuple[str, str, list[tuple[str, str]]]:
    return said.content, said.reasoning, said.calls


@pytest.mark.parametrize("name", FORMATS)
def test_cut_replies_say_the_start_of_whole_ones(name: str) -> None:
    """
    Wherever the length ends a reply: no markup is content, and calls whose names are
    whole are calls, however the text arrives.
    """
    text = f"<think>Hm.</think>I look. {CALLS[name]} So"
    whole = Reply(tool=name, reasoning="qwen3").read([text])
    faults = []

    for end in range(1, len(text)):
        at_once, split = (Reply(tool=name, reasoning="qwen3") for _ in range(2))
        said = at_once.read([text[:end]], is_cut=True)
        if not starts(said, whole) and name not in PLAIN_MARKS:
            faults.append(f"{text[:end]!r}: {said}")
        if told(said) != told(split.read(cut(text[:end], end), is_cut=True)):
            faults.append(f"{text[:end]!r} split")
        faults += broken_rules(at_once, said)

    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("name", FORMATS)
@settings(deadline=None, max_examples=10, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    reasoning=st.sampled_from([None, *sorted(REASONING_PARSERS)]),
)
def test_cut_slips_keep_to_the_contract(
    name: str, seed: int, reasoning: str | None
) -> None:
    """
    At every split the same, and no sentence is lost, even where it is within tags.
    """
    chance = random.Random(seed)  # noqa: S311 - no secret
    text = mutated("".join(chance.choices(WHOLE[name], k=2)), chance)
    text = f"We have Zebra1 here. {text[: chance.randint(0, len(text))]}"
    whole, split = (Reply(tool=name, reasoning=reasoning) for _ in range(2))

    said = whole.read([text], is_cut=True)
    pieces = split.read(cut(text, seed), is_cut=True)

    assert told(said) == told(pieces), text
    assert not broken_rules(whole, said), text
    assert "We have Zebra1 here." in said.content + said.reasoning, text


@pytest.mark.parametrize(
    ("name", "text", "calls", "content"),
    [
        ("hermes", '<tool_call>{"name": "get_we', [], ""),
        ("hermes", '<tool_call>{"name": "f", "argum', [("f", "{}")], ""),
        ("hermes", '<tool_call>{"name": "f", "arguments": "{\\"a', [("f", None)], ""),
        ("hermes", "The tag <tool_call> begins a call", [], None),
        ("hermes", '{"name": "get_we', [], None),
        ("mistral", "[TOOL_CALLS]f[ARGS]", [("f", "{}")], ""),
        ("mistral", "[TOOL_CALLS] is a token that", [], " is a token that"),
        ("llama3_json", '{"answer": "For', [], None),
        ("kimi_k2", "<|tool_calls_section_begin|>I look at it", [], "I look at it"),
        ("pythonic", "I have [one of", [], None),
        ("openai", "<|channel|>final<|message|>Hi.<|en", [], "Hi."),
        ("openai", "<|channel|>commentary to=functions.f", [], ""),
        ("openai", "<|channel|>commentary to=functions.f ", [("f", "{}")], ""),
    ],
)
def test_cuts_are_counted_and_cost_no_sentence(
    name: str, text: str, calls: list[tuple[str, str | None]], content: str | None
) -> None:
    """
    None as the content is the whole text, and as arguments what has been mended.
    """
    reply = Reply(tool=name)

    said = reply.read([text], is_cut=True)

    assert [each for each, _ in said.calls] == [each for each, _ in calls]
    assert said.content == (text if content is None else content)
    for (_, got), (_, wanted) in zip(said.calls, calls, strict=True):
        assert got == (wanted or '{"a": null}')
    if not content and content is not None and not calls:
        assert [kind for *_, kind, _ in reply.counts.stats().repairs] == ["cut"]


@pytest.mark.parametrize("name", FORMATS)
@settings(deadline=None, max_examples=20, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    reasoning=st.sampled_from([None, *sorted(REASONING_PARSERS)]),
)
def test_text_is_never_lost(name: str, seed: int, reasoning: str | None) -> None:
    """
    Words before and behind damaged calls are somewhere in the reply, and so are those
    between them if none is a call.
    """
    chance = random.Random(seed)  # noqa: S311 - no secret
    damaged = [mutated(CALLS[name], chance) for _ in range(2)]
    words = ("Zebra1", "Zebra2", "Zebra3")
    text = f"{words[0]} {damaged[0]} {words[1]} {damaged[1]} {words[2]}"

    said = Reply(tool=name, reasoning=reasoning).read(cut(text, seed))

    where = f"{said.content} {said.reasoning} {said.calls}"
    kept = words[::2] if said.calls else words
    assert not [each for each in kept if each not in where], (text, said)


@pytest.mark.parametrize("name", [*BARE, "kimi_k2", "glm45"])
def test_repairs_are_counted(name: str) -> None:
    """
    By parser and by kind; what needed none counts none.
    """
    [tidy] = [text for tool, text in CALLS.items() if tool == name]
    whole, slip = Reply(tool=name), Reply(tool=name)

    whole.read([tidy])
    slip.read([tidy.replace("Paris", "Pa\\ris").replace('"}', '",}') + tidy[:-9]])

    assert whole.counts.stats().repairs == ()
    repairs = slip.counts.stats().repairs
    assert {kind for kind, *_ in repairs} <= {"tool"}
    assert all(parser == name and count for _, parser, _, count in repairs)
