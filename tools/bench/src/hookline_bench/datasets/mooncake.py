"""Requests of a trace in Mooncake's format: their times, lengths and common parts."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated

import msgspec
import numpy as np
from tokenizers import Tokenizer

from hookline_bench.datasets.files import read_lines
from hookline_bench.random_prompts import Prompt, fitted_text, plain_ids

BLOCK_TOKENS = 512
"""Number of prompt tokens that one of a trace's hash ids stands for."""

MILLISECONDS = 1000

_COMMON, _OWN = 0, 1

Natural = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Blocks = Iterator[tuple[np.random.Generator, int]]
"""The source of each block's tokens, and their number."""


class TraceLine(msgspec.Struct, frozen=True):
    """A request of the trace.

    Attributes:
        timestamp: Milliseconds since the trace began.
        hash_ids: A number for each block of the prompt; equal ones stand for equal
            tokens. A block without a number is unlike all others.
    """

    timestamp: Annotated[float, msgspec.Meta(ge=0)]
    input_length: Positive
    output_length: Positive
    hash_ids: list[Natural] = []


def read_trace(path: str, count: int) -> list[TraceLine]:
    """Returns the earliest requests of a trace, by time.

    Raises:
        ConfigError: The file cannot be read, or a line is wrong.
    """
    lines = [line for _, line in read_lines(path, TraceLine)]
    return sorted(lines, key=lambda line: line.timestamp)[:count]


def seconds_of(lines: Sequence[TraceLine], slowdown: float) -> list[float]:
    """Returns the time of each request, in seconds after the first."""
    return [
        (line.timestamp - lines[0].timestamp) * slowdown / MILLISECONDS
        for line in lines
    ]


def trace_prompts(
    lines: Sequence[TraceLine], tokenizer: Tokenizer, seed: int, *, has_ids: bool
) -> list[Prompt]:
    """Returns the prompt of each request: token ids or text."""
    ids = plain_ids(tokenizer)
    made: Callable[[Sequence[int], Blocks], str | Sequence[int]]
    made = _ids if has_ids else partial(_text, tokenizer)
    return [
        _prompt(made(ids, _blocks(line, number, seed)), line, tokenizer)
        for number, line in enumerate(lines)
    ]


def _prompt(
    content: str | Sequence[int], line: TraceLine, tokenizer: Tokenizer
) -> Prompt:
    if isinstance(content, str):
        length = len(tokenizer.encode(content).ids)
    else:
        length = len(content)
    return Prompt(
        content=content, prompt_tokens=length, output_tokens=line.output_length
    )


def _ids(ids: Sequence[int], blocks: Blocks) -> list[int]:
    return [each for source, length in blocks for each in _draw(source, ids, length)]


def _text(tokenizer: Tokenizer, ids: Sequence[int], blocks: Blocks) -> str:
    return "".join(
        fitted_text(_draw(source, ids, length), tokenizer, ids, source)[0]
        for source, length in blocks
    )


def _blocks(line: TraceLine, number: int, seed: int) -> Blocks:
    for block, begin in enumerate(range(0, line.input_length, BLOCK_TOKENS)):
        key = (_OWN, number, block)
        if block < len(line.hash_ids):
            key = (_COMMON, line.hash_ids[block], 0)
        length = min(BLOCK_TOKENS, line.input_length - begin)
        yield np.random.default_rng([seed, *key]), length


def _draw(source: np.random.Generator, ids: Sequence[int], length: int) -> list[int]:
    # As many for every block, so that a short one begins like its longer namesake.
    picks = source.integers(0, len(ids), BLOCK_TOKENS)[:length]
    return [ids[each] for each in picks]
