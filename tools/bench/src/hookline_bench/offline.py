"""An engine in this process, for the benchmarks that need no server."""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import hookline
from hookline.config import EngineConfig
from hookline.sampling_params import SamplingParams
from hookline.worker.page_warmer import wait_until_warm
from hookline_bench.random_prompts import Prompt
from hookline_server.cli.arguments import Arguments, engine_config, read_arguments
from hookline_server.cli.engine_options import ENGINE_OPTIONS
from hookline_server.cli.parser import Option

T = TypeVar("T")


def read_offline(
    name: str,
    description: str,
    options: Sequence[Option],
    argv: Sequence[str],
    kind: type[T],
) -> tuple[T, EngineConfig, Arguments]:
    """A benchmark's settings, and the engine that was asked for."""
    arguments = read_arguments(
        f"bench {name}",
        description,
        [*options, *ENGINE_OPTIONS],
        argv,
        default_loggers=(),
    )
    config = engine_config(arguments, in_process=True)
    return arguments.make("bench", kind), config, arguments


@contextmanager
def opened(config: EngineConfig) -> Iterator[hookline.LLM]:
    """The engine, ready; it is closed in the end."""
    llm = hookline.LLM.from_config(config, collect_metrics=False)
    wait_until_warm()
    try:
        yield llm
    finally:
        llm.close()


def without_prefix_caching(config: EngineConfig) -> EngineConfig:
    """The same engine, which computes every prompt."""
    cache = dataclasses.replace(config.cache, enable_prefix_caching=False)
    return dataclasses.replace(config, cache=cache)


def vocabulary(llm: hookline.LLM) -> range:
    """The token ids that prompts are made of."""
    return range(llm.front_end.client.facts.vocab_size)


def exactly(prompt: Prompt) -> SamplingParams:
    """As many tokens as are wanted, whatever they are."""
    return SamplingParams(max_tokens=prompt.output_tokens, ignore_eos=True)
