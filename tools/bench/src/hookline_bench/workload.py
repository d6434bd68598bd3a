"""The requests of a load, and their times."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from tokenizers import Tokenizer

from hookline.exceptions import ConfigError
from hookline_bench.datasets.mooncake import read_trace, seconds_of, trace_prompts
from hookline_bench.datasets.reading import file_prompts
from hookline_bench.random_prompts import (
    Prompt,
    PromptShape,
    id_prompts,
    plain_ids,
    text_prompts,
)
from hookline_bench.serve_settings import ServeSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is sent to a server.

    Attributes:
        prompts: The measured ones, in the order of their times.
        warmups: Those of the ready check and the warmup, which are not measured.
        times: When each measured prompt is sent, in seconds from the start.
    """

    prompts: Sequence[Prompt]
    warmups: Sequence[Prompt]
    times: Sequence[float]


def make_workload(
    settings: ServeSettings, tokenizer: Tokenizer, source: np.random.Generator
) -> Workload:
    """Makes random prompts, or reads the dataset.

    Raises:
        ConfigError: The dataset cannot be read, or is empty.
    """
    warmups = 1 + settings.num_warmups
    if settings.dataset.is_random:
        count = settings.num_prompts + warmups
        made = _random(settings, settings.shape, count, tokenizer, source)
        prompts, others = made[:-warmups], made[-warmups:]
        times = settings.arrivals.times(len(prompts), source)
        return Workload(prompts=prompts, warmups=others, times=times)
    prompts, own_times = _read(settings, tokenizer)
    if not prompts:
        detail = f"{settings.dataset.path} has no prompt that can be sent"
        raise ConfigError("dataset-path", detail)
    return Workload(
        prompts=prompts,
        warmups=_random(settings, _mean_shape(prompts), warmups, tokenizer, source),
        times=own_times or settings.arrivals.times(len(prompts), source),
    )


def _random(
    settings: ServeSettings,
    shape: PromptShape,
    count: int,
    tokenizer: Tokenizer,
    source: np.random.Generator,
) -> list[Prompt]:
    if settings.prompt_token_ids:
        return id_prompts(shape, count, plain_ids(tokenizer), source)
    return text_prompts(shape, count, tokenizer, source)


def _read(
    settings: ServeSettings, tokenizer: Tokenizer
) -> tuple[list[Prompt], list[float] | None]:
    """Returns the prompts of the dataset, and their times if it has any."""
    dataset, count = settings.dataset, settings.num_prompts
    if dataset.has_times:
        lines = read_trace(str(dataset.path), count)
        has_ids = settings.prompt_token_ids
        prompts = trace_prompts(lines, tokenizer, settings.seed, has_ids=has_ids)
        return prompts, seconds_of(lines, dataset.slowdown)
    prompts = list(islice(file_prompts(dataset, tokenizer, settings.backend), count))
    if settings.prompt_token_ids:
        prompts = [_with_ids(prompt, tokenizer) for prompt in prompts]
    return prompts, None


def _with_ids(prompt: Prompt, tokenizer: Tokenizer) -> Prompt:
    return Prompt(
        content=tokenizer.encode(str(prompt.content)).ids,
        prompt_tokens=prompt.prompt_tokens,
        output_tokens=prompt.output_tokens,
    )


def _mean_shape(prompts: Sequence[Prompt]) -> PromptShape:
    """Returns prompts' mean lengths, those of warmups."""
    inputs = [prompt.prompt_tokens for prompt in prompts]
    outputs = [prompt.output_tokens for prompt in prompts]
    return PromptShape(
        input_tokens=max(round(sum(inputs) / len(inputs)), 1),
        output_tokens=max(round(sum(outputs) / len(outputs)), 1),
    )
