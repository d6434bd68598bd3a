"""Prompts of ShareGPT's conversations."""

from collections.abc import Iterator

import msgspec
from tokenizers import Tokenizer

from hookline_bench.datasets.files import read_entries
from hookline_bench.random_prompts import Prompt

LEAST_TOKENS = 4
MOST_PROMPT_TOKENS = 1024
MOST_TOKENS = 2048


class Turn(msgspec.Struct, frozen=True):
    """What one side said."""

    value: str


class Conversation(msgspec.Struct, frozen=True):
    """An entry of the file."""

    conversations: list[Turn]


def sharegpt_prompts(
    path: str, tokenizer: Tokenizer, output_tokens: int | None
) -> Iterator[Prompt]:
    """Yields a prompt for each conversation: its first turn.

    Args:
        path: ShareGPT's file.
        tokenizer: The tokenizer of the model.
        output_tokens: Length of each completion; None takes that of the second turn.

    Conversations of one turn, and very short or long ones, are left out, by the bounds
    that are usual for this dataset.

    Raises:
        ConfigError: The file cannot be read, or an entry is wrong.
    """
    for entry in read_entries(path, Conversation):
        if len(entry.conversations) < 2:
            continue
        asked, replied = (turn.value for turn in entry.conversations[:2])
        prompt = Prompt(
            content=asked,
            prompt_tokens=len(tokenizer.encode(asked).ids),
            output_tokens=output_tokens
            or len(tokenizer.encode(replied, add_special_tokens=False).ids),
        )
        if _is_usual(prompt, has_own_length=output_tokens is None):
            yield prompt


def _is_usual(prompt: Prompt, *, has_own_length: bool) -> bool:
    """Returns whether prompt and completion are neither too short nor too long."""
    total = prompt.prompt_tokens + prompt.output_tokens
    if has_own_length and prompt.output_tokens < LEAST_TOKENS:
        return False
    return (
        LEAST_TOKENS <= prompt.prompt_tokens <= MOST_PROMPT_TOKENS
        and total <= MOST_TOKENS
    )
