"""Where the time of an engine's steps on a GPU goes; needs a CUDA device.

usage: python benchmarks/gpu_steps.py [--model Qwen3-0.6B] [--works decode-1 nano …]
                                      [--repeats 3] [--option NAME=VALUE …]
                                      [--out FILE.json]

One engine with random bfloat16 weights serves all works, each after a warmup:

decode-N    N requests of 1024 + 256 tokens (from 64 on 256 + 256), greedy. Its steady
            state is from the first to the last step in which all requests decode.
prompt-N    One prompt of N tokens and one token of output.
nano        256 requests of 100 to 1024 random tokens and as many of output, temperature
            0.6, drawn from seed 0 as nano-vllm's benchmark draws them: 133 966 tokens.

Step times are the engine's records: the forward pass between two CUDA events, and the
wall time from step to step; the difference is what the device waits. The bytes of a
decode are the weights and the keys and values read, compared with a measured copy;
a prompt's operations with a measured product. Results are added to the file, under the
key of `--label`, after each work.
"""

import argparse
import gc
import json
import random
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from gpu import DTYPE, MODELS, Clock, Model, facts, measured_limits
from gpu_engine import MAX_MODEL_LEN, write_model
from gpu_results import add_rows, print_row

from hookline_registry.isolation import Failure, isolate

if TYPE_CHECKING:
    from hookline import SamplingParams
    from hookline.events import StepRecord

WORKS = (
    "decode-1",
    "decode-32",
    "decode-256",
    "prompt-2048",
    "prompt-8192",
    "nano",
)
NANO_REQUESTS, NANO_TOKENS = 256, 133_966
WARM_UP = 32
"""Tokens of output with which a decoding work warms up: its graphs are there before."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Prompts that are sent at once, and the number of tokens to generate for each."""

    prompts: Sequence[list[int]]
    output_tokens: Sequence[int]
    temperature: float = 0.0

    def params(self) -> "list[SamplingParams]":
        from hookline import SamplingParams  # noqa: PLC0415

        return [
            SamplingParams(
                temperature=self.temperature, max_tokens=count, ignore_eos=True
            )
            for count in self.output_tokens
        ]


@dataclass(frozen=True, slots=True)
class Run:
    """One timed run.

    Attributes:
        seconds: From the submission to the last output.
        records: The engine's steps.
    """

    seconds: float
    records: "Sequence[StepRecord]"


def requests_of(work: str, seed: int) -> Requests:
    """Returns a work's requests; others for each seed, but for `nano`."""
    source = random.Random(seed)  # noqa: S311 - the same in each run
    if work == "nano":
        source.seed(min(0, seed))
        prompts = []
        for _ in range(NANO_REQUESTS):
            length = source.randint(100, 1024)
            prompts.append([source.randint(0, 10_000) for _ in range(length)])
        counts = [source.randint(100, 1024) for _ in range(NANO_REQUESTS)]
        return Requests(prompts, counts, temperature=0.6)
    kind, number = work.split("-")
    count, length, generated = 1, int(number), 1
    if kind == "decode":
        count, length, generated = int(number), 1024, 256
        if count >= 64:
            length = 256
    prompts = [[source.randrange(3, 8000) for _ in range(length)] for _ in range(count)]
    return Requests(prompts, [generated] * count)


class Engine:
    """An engine in this process, whose steps are recorded."""

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        from hookline import LLM  # noqa: PLC0415
        from hookline.events import StepOutput  # noqa: PLC0415

        self.llm = LLM(str(folder), load_format="dummy", **options)
        self._records: list[StepRecord] = []
        client = self.llm.front_end.engines.client
        receive = client.receive

        def watched(timeout_seconds: float) -> Any:
            message = receive(timeout_seconds)
            if isinstance(message, StepOutput) and message.record is not None:
                self._records.append(message.record)
            return message

        client.receive = watched  # type: ignore[method-assign]

    def run(self, requests: Requests) -> Run:
        """Serves requests, with nothing of earlier ones in the prefix cache."""
        params = requests.params()
        self.llm.reset_prefix_cache()
        self._records.clear()
        start = time.perf_counter()
        outputs = self.llm.generate(list(requests.prompts), params, use_tqdm=False)
        seconds = time.perf_counter() - start
        found = sum(len(output.outputs[0].token_ids) for output in outputs)
        if found != sum(requests.output_tokens):
            raise RuntimeError(f"{found} tokens, not {sum(requests.output_tokens)}")
        return Run(seconds, tuple(self._records))


def tokens_of(record: "StepRecord") -> int:
    return sum(tokens for _, tokens in record.request_tokens)


def decode_row(
    model: Model, requests: Requests, run: Run, copy: float
) -> dict[str, float]:
    """Returns rates, times of a step in the steady state, and shares of the copy."""
    count = len(requests.prompts)
    steady = [
        each
        for each in run.records
        if len(each.request_tokens) == count == tokens_of(each)
    ]
    first, *rest = steady
    wall = (rest[-1].ended_at - first.ended_at) / len(rest) / 1e9
    device = statistics.median(each.execution.forward_ns for each in rest) / 1e9
    schedule = statistics.median(each.schedule_ns for each in rest) / 1e9
    length = len(requests.prompts[0]) + requests.output_tokens[0] / 2
    moved = sum(model.parameters) * DTYPE.itemsize + count * length * model.kv_bytes
    return {
        "end_to_end": sum(requests.output_tokens) / run.seconds,
        "steady": count / wall,
        "wall_ms": wall * 1e3,
        "device_ms": device * 1e3,
        "host_ms": (wall - device) * 1e3,
        "schedule_ms": schedule * 1e3,
        "copy_share": moved / wall / copy,
        "copy_share_of_device": moved / device / copy,
    }


def prompt_row(
    model: Model, requests: Requests, run: Run, product: float
) -> dict[str, float]:
    """Returns times of all steps of a prompt, and shares of the product."""
    length = len(requests.prompts[0])
    layers, output = model.parameters
    attended = 2 * length * (length + 1) * model.heads * model.dim * model.layers
    operations = 2 * layers * length + 2 * output + attended
    device = sum(each.execution.forward_ns for each in run.records) / 1e9
    return {
        "prompt_tokens_per_second": length / run.seconds,
        "steps": len(run.records),
        "wall_ms": run.seconds * 1e3,
        "device_ms": device * 1e3,
        "product_share": operations / run.seconds / product,
        "product_share_of_device": operations / device / product,
    }


def nano_row(requests: Requests, run: Run) -> dict[str, float]:
    """Returns the rate, and how much of the time the device computed."""
    device = sum(each.execution.forward_ns for each in run.records) / 1e9
    decodes = [each for each in run.records if each.sampled_requests]
    return {
        "end_to_end": sum(requests.output_tokens) / run.seconds,
        "seconds": run.seconds,
        "device_seconds": device,
        "steps": len(run.records),
        "tokens_per_step": statistics.mean(map(tokens_of, decodes)),
    }


def measure(
    engine: Engine, model: Model, work: str, repeats: int, limits: dict[str, float]
) -> dict[str, object]:
    """Returns the median of each figure, and the rates of all repeats."""
    copy, product = limits["copy_bytes_per_second"], limits["matmul_flops"]
    rows: list[dict[str, float]] = []
    for seed in range(-1, repeats):
        requests = requests_of(work, seed)
        if seed < 0 and work.startswith("decode"):
            requests = replace(
                requests, output_tokens=[WARM_UP] * len(requests.prompts)
            )
        run = engine.run(requests)
        if seed < 0:
            continue
        if work.startswith("decode"):
            rows.append(decode_row(model, requests, run, copy))
        elif work.startswith("prompt"):
            rows.append(prompt_row(model, requests, run, product))
        else:
            assert sum(requests.output_tokens) == NANO_TOKENS
            rows.append(nano_row(requests, run))
    row: dict[str, object] = {
        key: statistics.median(each[key] for each in rows) for key in rows[0]
    }
    main_figure = next(iter(rows[0]))
    return {**row, "all": [each[main_figure] for each in rows]}


def value_of(text: str) -> object:
    """Returns an option's value: JSON, or else text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def guarded(measured: Callable[[], dict[str, object]]) -> dict[str, object]:
    """Returns the row, or the error that prevented it."""
    outcome = isolate(measured)  # other works still have an answer
    if not isinstance(outcome, Failure):
        return outcome
    traceback.print_exception(outcome.error)
    return {"error": outcome.summary[:300]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [model.name for model in MODELS]
    parser.add_argument("--model", choices=names, default=names[0])
    parser.add_argument("--works", nargs="+", default=list(WORKS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--label", default="")
    parser.add_argument("--device", default="cuda", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    [model] = [each for each in MODELS if each.name == given.model]
    options = {"device": given.device, "max_model_len": MAX_MODEL_LEN}
    options |= {
        name.replace("-", "_"): value_of(text)
        for name, _, text in (each.partition("=") for each in given.option)
    }
    label = given.label or " ".join(given.option) or "default"
    about, limits = {}, {"copy_bytes_per_second": 1e12, "matmul_flops": 1e14}
    if given.device == "cuda":
        if not torch.cuda.is_available():
            sys.exit("benchmarks/gpu_steps.py needs a CUDA device; torch finds none")
        device = torch.device("cuda")
        about, limits = facts(device), measured_limits(Clock(device, 20), device)
        gc.collect()
        torch.cuda.empty_cache()
    with tempfile.TemporaryDirectory() as name:
        write_model(model, Path(name))
        start = time.perf_counter()
        engine = Engine(Path(name), options)
        started = {"start_seconds": time.perf_counter() - start}
    rows = []
    for work in given.works:
        row = {"model": model.name, "work": work, "label": label, **started}
        row |= guarded(partial(measure, engine, model, work, given.repeats, limits))
        print_row(row)
        rows.append(row)
        if given.out:
            add_rows(given.out, {**about, **limits}, rows[-1:])
    engine.llm.close()


if __name__ == "__main__":
    main()
