"""Sequences of tokens to learn from: of texts, or of what the target says itself."""

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from hookline import LLM, SamplingParams
from hookline.config import EngineConfig
from hookline.draft_training.settings import TrainingSettings
from hookline.exceptions import ConfigError
from hookline.models.description import describe
from hookline.tokenizer import Tokenizer

Rows = list[list[int]]

_AT_ONCE = 512
"""Requests between two lines of progress."""


def make_rows(
    config: EngineConfig, settings: TrainingSettings, say: Callable[[str], None]
) -> tuple[Rows, Rows]:
    """Rows of `row_tokens` tokens to learn from, and others that are held out.

    Of texts, the end is held out.

    Raises:
        ConfigError: A text cannot be read, or there is too little of it.
    """
    length = settings.prompt_tokens if settings.is_said else settings.row_tokens
    if settings.texts:
        rows, held_out = _pieces(config, settings, length)
    else:
        count = settings.num_rows + settings.num_held_out
        pieces = _said(config, _starts(config, count), length, say)
        rows, held_out = pieces[: settings.num_rows], pieces[settings.num_rows :]
    if settings.is_said:
        both = _continued(config, [*rows, *held_out], settings.row_tokens, say)
        rows, held_out = both[: len(rows)], both[len(rows) :]
    return rows, held_out


def _pieces(
    config: EngineConfig, settings: TrainingSettings, length: int
) -> tuple[Rows, Rows]:
    """As many as are wanted, drawn from the texts' beginning and from their end."""
    description = describe(config.model)
    tokenizer = Tokenizer.load(Path(config.model.tokenizer or description.folder))
    pieces: Rows = []
    for path in settings.texts:
        tokens = tokenizer.encode(_read(path), add_special_tokens=False)
        cuts = range(0, len(tokens) + 1, length)
        pieces += [tokens[first:last] for first, last in pairwise(cuts)]
    kept = (
        len(pieces) * settings.num_rows // (settings.num_rows + settings.num_held_out)
    )
    if not 0 < kept < len(pieces):
        raise ConfigError("data", f"it holds no more than {len(pieces)} pieces")
    source = random.Random(config.model.seed)  # noqa: S311 - a choice, no secret
    return (
        _some(source, pieces[:kept], settings.num_rows),
        _some(source, pieces[kept:], settings.num_held_out),
    )


def _some(source: random.Random, rows: Rows, count: int) -> Rows:
    return source.sample(rows, min(count, len(rows)))


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("data", f"{path} cannot be read: {error}") from error


def _starts(config: EngineConfig, count: int) -> Rows:
    """Single tokens."""
    source = random.Random(config.model.seed)  # noqa: S311 - a choice, no secret
    vocab_size = describe(config.model).vocab_size
    return [[source.randrange(vocab_size)] for _ in range(count)]


def _said(
    config: EngineConfig, prompts: Rows, length: int, say: Callable[[str], None]
) -> Rows:
    """Texts of the target's own distribution."""
    return _generated(config, prompts, length, say, temperature=1.0)


def _continued(
    config: EngineConfig, prompts: Rows, length: int, say: Callable[[str], None]
) -> Rows:
    """What the target takes for the likeliest."""
    return _generated(config, prompts, length, say, temperature=0.0)


def _generated(
    config: EngineConfig,
    prompts: Sequence[list[int]],
    length: int,
    say: Callable[[str], None],
    *,
    temperature: float,
) -> Rows:
    params = SamplingParams(
        temperature=temperature, max_tokens=length - len(prompts[0]), ignore_eos=True
    )
    rows: Rows = []
    with LLM.from_config(config, collect_metrics=False) as llm:
        for first in range(0, len(prompts), _AT_ONCE):
            part = prompts[first : first + _AT_ONCE]
            outputs = llm.generate(part, params, use_tqdm=False)
            rows += [
                [*prompt, *output.outputs[0].token_ids]
                for prompt, output in zip(part, outputs, strict=True)
            ]
            say(
                f"said {len(rows)} of {len(prompts)} texts of {length} tokens, "
                f"temperature {temperature:g}"
            )
    return rows
