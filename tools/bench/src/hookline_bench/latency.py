"""`hookline bench latency`: the latency of one batch of requests, offline."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hookline.config.options import check_options, option
from hookline.outputs import RequestOutput
from hookline_bench.offline import (
    exactly,
    opened,
    read_offline,
    vocabulary,
    without_prefix_caching,
)
from hookline_bench.options import BENCHMARK, DISABLE_TQDM, OUTPUT_JSON
from hookline_bench.percentiles import (
    QUARTILES_AND_TAILS,
    percentage_word,
    summarize,
)
from hookline_bench.phase_times import phase_fields
from hookline_bench.random_prompts import Prompt, PromptShape, id_prompts
from hookline_bench.result_file import write_json
from hookline_offline.llm import LLM
from hookline_server.cli.output import say

DESCRIPTION = "Measures the latency of one batch of requests, offline."
ALIASES = {"--input-tokens": "--input-len", "--output-tokens": "--output-len"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySettings:
    """Options of the command."""

    input_len: int = option(
        "Number of tokens per prompt.",
        default=32,
        group=BENCHMARK,
        metavar="TOKENS",
        minimum=1,
    )
    output_len: int = option(
        "Number of tokens per completion.",
        default=128,
        group=BENCHMARK,
        metavar="TOKENS",
        minimum=1,
    )
    batch_size: int = option(
        "Number of requests per batch.",
        default=8,
        group=BENCHMARK,
        metavar="COUNT",
        minimum=1,
    )
    num_iters_warmup: int = option(
        "Number of batches before the measured ones.",
        default=10,
        group=BENCHMARK,
        metavar="COUNT",
        minimum=0,
    )
    num_iters: int = option(
        "Number of measured batches.",
        default=30,
        group=BENCHMARK,
        metavar="COUNT",
        minimum=1,
    )
    output_json: str | None = OUTPUT_JSON()
    disable_tqdm: bool = DISABLE_TQDM()

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A measured batch."""

    seconds: float
    outputs: Sequence[RequestOutput]


def run(argv: list[str]) -> int:
    """Measures and reports."""
    settings, config, arguments = read_offline(
        "latency", DESCRIPTION, argv, LatencySettings, ALIASES
    )
    if "config.cache.enable_prefix_caching" not in arguments.given:
        # Every batch has the same prompts, which would be computed only once.
        config = without_prefix_caching(config)
    with opened(config) as llm:
        batches = _batches(llm, settings)
    say("\n".join(_lines([batch.seconds for batch in batches])))
    if settings.output_json is not None:
        fields = {"model_id": config.model.model, **_fields(batches)}
        write_json(Path(settings.output_json), fields)
    return 0


def _batches(llm: LLM, settings: LatencySettings) -> list[Batch]:
    shape = PromptShape(
        input_tokens=settings.input_len, output_tokens=settings.output_len
    )
    source = np.random.default_rng(0)
    prompts = id_prompts(shape, settings.batch_size, vocabulary(llm), source)
    for _ in _bar("Warmup iterations", settings.num_iters_warmup, settings):
        _batch(llm, prompts)
    return [
        _batch(llm, prompts)
        for _ in _bar("Bench iterations", settings.num_iters, settings)
    ]


def _batch(llm: LLM, prompts: Sequence[Prompt]) -> Batch:
    start = time.perf_counter()
    outputs = llm.generate(
        [prompt.content for prompt in prompts],
        [exactly(each) for each in prompts],
        use_tqdm=False,
    )
    return Batch(seconds=time.perf_counter() - start, outputs=outputs)


def _bar(title: str, count: int, settings: LatencySettings) -> Iterable[int]:
    return tqdm(range(count), desc=title, disable=settings.disable_tqdm)


def _lines(latencies: Sequence[float]) -> Iterable[str]:
    summary = summarize(latencies, QUARTILES_AND_TAILS)
    yield f"Avg latency: {summary.mean} seconds"
    for percentage, value in summary.percentiles.items():
        yield f"{percentage_word(percentage)}% percentile latency: {value} seconds"


def _fields(batches: Sequence[Batch]) -> dict[str, object]:
    latencies = [batch.seconds for batch in batches]
    summary = summarize(latencies, QUARTILES_AND_TAILS)
    return {
        "avg_latency": summary.mean,
        "latencies": latencies,
        **phase_fields([batch.outputs for batch in batches]),
        "percentiles": {
            percentage_word(percentage): value
            for percentage, value in summary.percentiles.items()
        },
    }
