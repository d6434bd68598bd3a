"""Prompts of a wanted length that mean nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from hookline.exceptions import ConfigError, ModelLoadError
from hookline.models.description import find_folder
from hookline_registry import Failure, isolate

ATTEMPTS = 10
"""Text seldom becomes the tokens that it was made of; so often it is corrected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt and what is asked for.

    Attributes:
        content: Text or token ids.
        prompt_tokens: Its length, with what the tokenizer puts around it.
        output_tokens: Length of the completion.
    """

    content: str | Sequence[int]
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptShape:
    """How long prompts and completions are.

    Attributes:
        input_tokens: Of each prompt, besides the prefix, on average.
        output_tokens: Of each completion, on average.
        range_ratio: Lengths are drawn from (1 − ratio) to (1 + ratio) times these.
        prefix_tokens: So many are the same in all prompts, at their beginning.
    """

    input_tokens: int = 1024
    output_tokens: int = 128
    range_ratio: float = 0.0
    prefix_tokens: int = 0

    def __post_init__(self) -> None:
        for option, least in (("input", 1), ("output", 1), ("prefix", 0)):
            if getattr(self, f"{option}_tokens") < least:
                raise ConfigError(f"random-{option}-len", f"must be at least {least}")
        if not 0 <= self.range_ratio < 1:
            raise ConfigError("random-range-ratio", "must be 0 or above, and below 1")

    def lengths(self, count: int, source: np.random.Generator) -> list[tuple[int, int]]:
        """Prompt (without prefix) and completion lengths."""
        inputs, outputs = (
            self._spread(mean, count, source)
            for mean in (self.input_tokens, self.output_tokens)
        )
        return list(zip(inputs, outputs, strict=True))

    def _spread(self, mean: int, count: int, source: np.random.Generator) -> list[int]:
        low = max(1, floor(mean * (1 - self.range_ratio)))
        high = ceil(mean * (1 + self.range_ratio))
        return [int(each) for each in source.integers(low, high, count, endpoint=True)]


def id_prompts(
    shape: PromptShape, count: int, ids: Sequence[int], source: np.random.Generator
) -> list[Prompt]:
    """Prompts of random token ids."""
    known = np.asarray(ids)
    prefix = source.choice(known, shape.prefix_tokens).tolist()
    return [
        Prompt(
            content=[*prefix, *source.choice(known, length).tolist()],
            prompt_tokens=shape.prefix_tokens + length,
            output_tokens=wanted,
        )
        for length, wanted in shape.lengths(count, source)
    ]


def text_prompts(
    shape: PromptShape, count: int, tokenizer: Tokenizer, source: np.random.Generator
) -> list[Prompt]:
    """Prompts of random text, that the tokenizer turns into as many tokens."""
    ids = plain_ids(tokenizer)
    around = tokenizer.num_special_tokens_to_add(is_pair=False)
    return [
        Prompt(
            content=text,
            prompt_tokens=length + around,
            output_tokens=made.output_tokens,
        )
        for made in id_prompts(shape, count, ids, source)
        for text, length in [_fitted(made, tokenizer, around, ids, source)]
    ]


def plain_ids(tokenizer: Tokenizer) -> list[int]:
    """The token ids that stand for text."""
    added = tokenizer.get_added_tokens_decoder()
    return sorted(set(tokenizer.get_vocab().values()) - set(added))


def read_tokenizer(name: str) -> Tokenizer:
    """The tokenizer in a folder, or of an installed model.

    Raises:
        ConfigError: There is none that can be read.
    """
    path = _folder(name) / "tokenizer.json"
    if not path.is_file():
        raise ConfigError("tokenizer", f"there is no {path}")
    read = isolate(Tokenizer.from_file, str(path))
    if isinstance(read, Failure):
        raise ConfigError("tokenizer", f"cannot read {path}: {read.summary}")
    return read


def _folder(name: str) -> Path:
    if Path(name).is_dir():
        return Path(name)
    try:
        return find_folder(name)
    except ModelLoadError as error:
        detail = f"{name!r} is neither a folder nor an installed model; name a folder"
        raise ConfigError("tokenizer", detail) from error


def _fitted(
    made: Prompt,
    tokenizer: Tokenizer,
    around: int,
    ids: Sequence[int],
    source: np.random.Generator,
) -> tuple[str, int]:
    """Text of nearly the right length, and the length it has."""
    wanted = max(made.prompt_tokens - around, 1)
    tokens = [int(each) for each in made.content[:wanted]]
    for _ in range(ATTEMPTS):
        text = tokenizer.decode(tokens, skip_special_tokens=False)
        found = tokenizer.encode(text, add_special_tokens=False).ids
        if len(found) == wanted:
            break
        missing = max(wanted - len(found), 0)
        tokens = [*found[:wanted], *source.choice(ids, missing).tolist()]
    return text, len(found)
