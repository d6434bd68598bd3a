"""Random prompts of given lengths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from hookline.config.options import check_options, option
from hookline.exceptions import ConfigError, ModelLoadError
from hookline.model_description import find_folder
from hookline_processes.model_files import folder_refusal
from hookline_registry import Failure, isolate

ATTEMPTS = 10
"""Maximum number of corrections of a text that tokenizes to another length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt, and the length of its completion.

    Attributes:
        content: Text or token ids.
        prompt_tokens: Its length, including special tokens.
        output_tokens: Length of the completion.
        messages: A conversation that is sent in place of the content, as a chat.
    """

    content: str | Sequence[int]
    prompt_tokens: int
    output_tokens: int
    messages: Sequence[Mapping[str, object]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptShape:
    """Lengths of prompts and completions."""

    input_tokens: int = option(
        "Number of tokens per prompt, without the common prefix.",
        default=1024,
        flag="random-input-len",
        metavar="TOKENS",
        minimum=1,
    )
    output_tokens: int = option(
        "Number of tokens per completion.",
        default=128,
        flag="random-output-len",
        metavar="TOKENS",
        minimum=1,
    )
    range_ratio: float = option(
        "Sample both lengths from (1 - RATIO) to (1 + RATIO) times their value.",
        default=0.0,
        flag="random-range-ratio",
        metavar="RATIO",
        minimum=0,
    )
    prefix_tokens: int = option(
        "Number of additional tokens at the beginning of every prompt, the same in "
        "all of them.",
        default=0,
        flag="random-prefix-len",
        metavar="TOKENS",
        minimum=0,
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.range_ratio >= 1:
            raise ConfigError("random-range-ratio", "must be less than 1")

    def lengths(self, count: int, source: np.random.Generator) -> list[tuple[int, int]]:
        """Samples prompt (without prefix) and completion lengths."""
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
    """Makes prompts of random token ids."""
    known = np.asarray(ids)
    prefix = source.choice(known, shape.prefix_tokens).tolist()
    return [
        Prompt(
            content=[*prefix, *source.choice(known, length).tolist()],
            prompt_tokens=shape.prefix_tokens + length,
            output_tokens=num_tokens,
        )
        for length, num_tokens in shape.lengths(count, source)
    ]


def text_prompts(
    shape: PromptShape, count: int, tokenizer: Tokenizer, source: np.random.Generator
) -> list[Prompt]:
    """Makes prompts of random text with these numbers of tokens."""
    ids = plain_ids(tokenizer)
    around = tokenizer.num_special_tokens_to_add(is_pair=False)
    prompts = []
    for made in id_prompts(shape, count, ids, source):
        num_tokens = max(made.prompt_tokens - around, 1)
        tokens = [int(each) for each in made.content[:num_tokens]]
        text, length = fitted_text(tokens, tokenizer, ids, source)
        prompts.append(
            Prompt(
                content=text,
                prompt_tokens=length + around,
                output_tokens=made.output_tokens,
            )
        )
    return prompts


def fitted_text(
    tokens: Sequence[int],
    tokenizer: Tokenizer,
    ids: Sequence[int],
    source: np.random.Generator,
) -> tuple[str, int]:
    """Returns text of nearly as many tokens as given, and its actual length.

    Args:
        tokens: The tokens to begin with.
        tokenizer: The tokenizer that counts.
        ids: The tokens to add from if the text has too few.
        source: The source of what is added.
    """
    num_tokens = len(tokens)
    for _ in range(ATTEMPTS):
        text = tokenizer.decode(tokens, skip_special_tokens=False)
        found = tokenizer.encode(text, add_special_tokens=False).ids
        if len(found) == num_tokens:
            break
        missing = source.integers(0, len(ids), max(num_tokens - len(found), 0))
        tokens = [*found[:num_tokens], *(ids[each] for each in missing)]
    return text, len(found)


def plain_ids(tokenizer: Tokenizer) -> list[int]:
    """Returns the token ids of text, without special tokens."""
    added = tokenizer.get_added_tokens_decoder()
    return sorted(set(tokenizer.get_vocab().values()) - set(added))


def read_tokenizer(name: str) -> Tokenizer:
    """Loads the tokenizer of a folder or of an installed model.

    Raises:
        ConfigError: It is missing or cannot be read.
    """
    folder = _folder(name)
    if reason := folder_refusal(folder):
        raise ConfigError("tokenizer", f"{folder}: {reason}")
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise ConfigError("tokenizer", f"{path} does not exist")
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
        detail = f"{name!r} is neither a folder nor an installed model"
        raise ConfigError("tokenizer", detail) from error
