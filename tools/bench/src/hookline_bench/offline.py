"""An engine in this process, for the benchmarks that need no server."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

import hookline
from hookline.config import EngineConfig
from hookline.sampling_params import SamplingParams
from hookline_bench.random_prompts import Prompt
from hookline_description.locating import located
from hookline_kernels.runtime.kv_cache_prefaulter import wait_until_prefaulted
from hookline_server.cli.options.arguments import (
    Arguments,
    engine_config,
    read_arguments,
)
from hookline_server.cli.options.derived import derived
from hookline_server.cli.options.engine import engine_options

T = TypeVar("T")


def read_offline(
    name: str,
    description: str,
    argv: Sequence[str],
    kind: type[T],
    aliases: Mapping[str, str],
) -> tuple[T, EngineConfig, Arguments]:
    """Reads a benchmark's settings and the engine's configuration.

    `aliases` are other names of options, with leading dashes.
    """
    arguments = read_arguments(
        f"bench {name}",
        description,
        [*derived(kind, "bench"), *engine_options()],
        [_respelt(word, aliases) for word in argv],
        default_loggers=(),
    )
    config = located(engine_config(arguments, in_process=True))
    return arguments.make("bench", kind), config, arguments


def _respelt(word: str, aliases: Mapping[str, str]) -> str:
    flag, equals, value = word.partition("=")
    known = aliases.get(flag.replace("_", "-"))
    return word if known is None else f"{known}{equals}{value}"


@contextmanager
def opened(config: EngineConfig) -> Iterator[hookline.LLM]:
    """Opens the engine for a block of code; yields it when it is ready."""
    llm = hookline.LLM.from_config(config, collect_metrics=False)
    wait_until_prefaulted()
    try:
        yield llm
    finally:
        llm.close()


def without_prefix_caching(config: EngineConfig) -> EngineConfig:
    """Returns the configuration with prefix caching off."""
    cache = dataclasses.replace(config.cache, enable_prefix_caching=False)
    return dataclasses.replace(config, cache=cache)


def vocabulary(llm: hookline.LLM) -> range:
    """Returns the token ids that prompts are made of."""
    return range(llm.front_end.facts.model.vocab_size)


def exactly(prompt: Prompt) -> SamplingParams:
    """Returns parameters that generate exactly the prompt's number of tokens."""
    return SamplingParams(max_tokens=prompt.output_tokens, ignore_eos=True)
