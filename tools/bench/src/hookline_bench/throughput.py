"""`hookline bench throughput`: requests and tokens per second, offline."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from hookline.config import EngineConfig
from hookline.config.options import check_options, option, section
from hookline.exceptions import ConfigError
from hookline.outputs import RequestOutput
from hookline_bench.client import Backend
from hookline_bench.datasets.reading import file_prompts
from hookline_bench.datasets.settings import DatasetSettings
from hookline_bench.offline import exactly, opened, read_offline, vocabulary
from hookline_bench.options import (
    BENCHMARK,
    DISABLE_TQDM,
    NUM_PROMPTS,
    OUTPUT_JSON,
    PROMPTS,
)
from hookline_bench.phase_times import phase_fields
from hookline_bench.random_prompts import (
    Prompt,
    PromptShape,
    id_prompts,
    read_tokenizer,
)
from hookline_bench.result_file import write_json
from hookline_offline.llm import LLM
from hookline_server.cli.output import complain, say

DESCRIPTION = "Measures requests and tokens per second, offline."
ALIASES = {
    "--input-len": "--random-input-len",
    "--input-tokens": "--random-input-len",
    "--output-len": "--random-output-len",
    "--output-tokens": "--random-output-len",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputSettings:
    """Options of the command."""

    num_prompts: int = NUM_PROMPTS()
    dataset: DatasetSettings = section(PROMPTS, DatasetSettings)
    shape: PromptShape = section(PROMPTS, PromptShape)
    num_warmups: int = option(
        "Number of requests before the measured ones.",
        default=0,
        group=BENCHMARK,
        metavar="COUNT",
        minimum=0,
    )
    output_json: str | None = OUTPUT_JSON()
    disable_tqdm: bool = DISABLE_TQDM()

    def __post_init__(self) -> None:
        check_options(self)
        self.dataset.check_shape(self.shape)
        if self.dataset.has_times:
            detail = f"the requests of {self.dataset.name} have times; use bench serve"
            raise ConfigError("dataset-name", detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """The work done, and the time it took."""

    seconds: float
    outputs: Sequence[RequestOutput]

    @property
    def requests(self) -> int:
        return len(self.outputs)

    @property
    def prompt_tokens(self) -> int:
        return sum(len(output.prompt_token_ids) for output in self.outputs)

    @property
    def output_tokens(self) -> int:
        return sum(_output_tokens(output) for output in self.outputs)

    @property
    def all_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens

    def lines(self) -> Iterable[str]:
        """Yields the lines of the report."""
        yield (
            f"Throughput: {self.requests / self.seconds:.2f} requests/s, "
            f"{self.all_tokens / self.seconds:.2f} total tokens/s, "
            f"{self.output_tokens / self.seconds:.2f} output tokens/s"
        )
        yield f"Total num prompt tokens:  {self.prompt_tokens}"
        yield f"Total num output tokens:  {self.output_tokens}"

    def fields(self) -> dict[str, object]:
        """Returns the fields of the JSON file."""
        return {
            "elapsed_time": self.seconds,
            "num_requests": self.requests,
            "total_num_tokens": self.all_tokens,
            "requests_per_second": self.requests / self.seconds,
            "tokens_per_second": self.all_tokens / self.seconds,
            "input_lens": [len(each.prompt_token_ids) for each in self.outputs],
            "output_lens": [_output_tokens(each) for each in self.outputs],
            "latencies": [
                each.metrics.e2e_seconds
                for each in self.outputs
                if each.metrics is not None
            ],
            **phase_fields([[each] for each in self.outputs]),
        }


def run(argv: list[str]) -> int:
    """Measures and reports."""
    settings, config, _ = read_offline(
        "throughput", DESCRIPTION, argv, ThroughputSettings, ALIASES
    )
    # Read before the engine starts: a wrong file is told of at once.
    prompts = None if settings.dataset.is_random else _from_file(settings, config)
    with opened(config) as llm:
        made = prompts or _random(llm, settings, seed=config.model.seed)
        result = _throughput(llm, _fitting(llm, made), settings)
    say("\n".join(result.lines()))
    if settings.output_json is not None:
        write_json(Path(settings.output_json), result.fields())
    return 0


def _random(llm: LLM, settings: ThroughputSettings, *, seed: int) -> Sequence[Prompt]:
    source = np.random.default_rng(seed)
    count = settings.num_warmups + settings.num_prompts
    return id_prompts(settings.shape, count, vocabulary(llm), source)


def _from_file(settings: ThroughputSettings, config: EngineConfig) -> Sequence[Prompt]:
    """Returns the first prompts of the dataset.

    Raises:
        ConfigError: It cannot be read, or has no prompt.
    """
    tokenizer = read_tokenizer(config.model.tokenizer or config.model.model)
    count = settings.num_warmups + settings.num_prompts
    found = file_prompts(settings.dataset, tokenizer, Backend.OPENAI)
    prompts = list(islice(found, count))
    if not prompts:
        detail = f"{settings.dataset.path} has no prompt that can be sent"
        raise ConfigError("dataset-path", detail)
    return prompts


def _fitting(llm: LLM, prompts: Sequence[Prompt]) -> Sequence[Prompt]:
    """Returns the prompts that the model has room for, and tells of the others."""
    room = llm.front_end.facts.model.max_model_len
    found = [
        each for each in prompts if each.prompt_tokens + each.output_tokens <= room
    ]
    if left_out := len(prompts) - len(found):
        complain(f"{left_out} prompts do not fit into {room} tokens and are left out")
    if not found:
        raise ConfigError("max-model-len", f"no prompt fits into {room} tokens")
    return found


def _throughput(
    llm: LLM, prompts: Sequence[Prompt], settings: ThroughputSettings
) -> Throughput:
    contents = [prompt.content for prompt in prompts]
    params = [exactly(prompt) for prompt in prompts]
    first = min(settings.num_warmups, len(prompts) - 1)
    if first:
        llm.generate(contents[:first], params[:first], use_tqdm=False)
    start = time.perf_counter()
    outputs = llm.generate(
        contents[first:], params[first:], use_tqdm=not settings.disable_tqdm
    )
    return Throughput(seconds=time.perf_counter() - start, outputs=outputs)


def _output_tokens(output: RequestOutput) -> int:
    return len(output.outputs[0].token_ids)
