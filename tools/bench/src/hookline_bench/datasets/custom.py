"""Prompts of a file with one JSON object a line."""

from collections.abc import Iterator
from typing import Annotated

import msgspec
from tokenizers import Tokenizer

from hookline.exceptions import ConfigError
from hookline_bench.client import Backend
from hookline_bench.datasets.files import read_lines, wrong_line
from hookline_bench.random_prompts import Prompt

OUTPUT_TOKENS = 256
"""Length of the completion of a line that names none."""


class CustomLine(msgspec.Struct, frozen=True):
    """A line of the file."""

    prompt: str | None = None
    messages: list[dict[str, object]] | None = None
    output_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None


def custom_prompts(
    path: str, tokenizer: Tokenizer, backend: Backend, output_tokens: int | None
) -> Iterator[Prompt]:
    """Yields the prompt of each line.

    Raises:
        ConfigError: The file cannot be read, or a line is wrong.
    """
    for number, line in read_lines(path, CustomLine):
        if (line.prompt is None) is (line.messages is None):
            raise wrong_line(path, number, "needs either prompt or messages")
        if line.messages is not None and backend is not Backend.OPENAI_CHAT:
            detail = f"messages of {path} need backend {Backend.OPENAI_CHAT}"
            raise ConfigError("dataset-path", detail)
        if not (line.prompt or line.messages):
            raise wrong_line(path, number, "is empty")
        text = line.prompt if line.prompt is not None else _text(line.messages or [])
        yield Prompt(
            content=text,
            messages=line.messages,
            prompt_tokens=len(tokenizer.encode(text).ids),
            output_tokens=line.output_tokens or output_tokens or OUTPUT_TOKENS,
        )


def _text(messages: list[dict[str, object]]) -> str:
    """Returns the texts of a conversation, from which its length is estimated."""
    texts = [message.get("content") for message in messages]
    return "\n".join(text for text in texts if isinstance(text, str))
