"""Measures what the host needs for a step, on a device that answers at once.

usage: python benchmarks/host_time.py [--running 1 32 256 1024] [--steps 200]
                                      [--model llama-tiny] [--out FILE]

One thread drives an engine and its front end: executor `null`, which prepares steps as
for a GPU, with overlapping steps and streamed outputs, without loggers. Counted are
steps in which all requests decode; requests generate random tokens.

Prints the processor time a step by part, in ms: medians, and of the engine's and the
front end's sums the quartiles, too. Parts of the engine's thread:

schedule   the scheduler's plan
prepare    the batch's inputs and their copy, until the device has the step
sample     the step's tokens by request
update     the scheduler takes the tokens
emit       the step's record, statistics and events
encode     the output's message; a process of its own sends it

and of the front end `decode` and `deliver`: texts, accounting and outputs.
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from unittest.mock import patch

import msgspec
from bench_folders import own_folder
from bench_models import NAMES, write_models

from hookline import EngineConfig, ModelConfig, SamplingParams
from hookline.config import CacheConfig, ExecutorConfig, SchedulerConfig
from hookline.engine.engine_core import EngineCore
from hookline.engine.scheduler.scheduler import Scheduler
from hookline.engine.worker.model_runner import BegunStep, ModelRunner
from hookline.events import StepOutput
from hookline.frontend.front_end import FrontEnd
from hookline.frontend.starting import start_front_end
from hookline.frozen import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

R = TypeVar("R")
ENGINE = ("schedule", "prepare", "sample", "update", "emit", "encode")
FRONT_END = ("decode", "deliver")
GOALS_MS = {1: 0.25, 32: 0.5, 256: 1.6, 1024: 6.0}
FRONT_END_GOAL_US = 4.0
BATCHED_TOKENS = 8192
WARM_UP = 20
"""Steps after the last prompt that are not counted."""


class Parts:
    """Processor time of a step's parts; a part within another counts as its own.

    Attributes:
        spent: Nanoseconds since the step began, by part.
    """

    def __init__(self) -> None:
        self.spent = dict.fromkeys((*ENGINE, *FRONT_END), 0)
        self._inside = 0

    def timed(self, part: str, function: Callable[..., R]) -> Callable[..., R]:
        """Returns the function, whose time counts for a part."""

        def call(*args: object, **kwargs: object) -> R:
            outer, self._inside = self._inside, 0
            start = time.thread_time_ns()
            try:
                return function(*args, **kwargs)
            finally:
                whole = time.thread_time_ns() - start
                self.spent[part] += whole - self._inside
                self._inside = outer + whole

        return call

    @contextmanager
    def watch(self) -> "Iterator[None]":
        """Times the engine's parts."""
        watched = (
            (EngineCore, "step", "emit"),
            (Scheduler, "schedule", "schedule"),
            (ModelRunner, "start", "prepare"),
            (BegunStep, "result", "sample"),
            (Scheduler, "update", "update"),
            (FrontEnd, "on_message", "deliver"),
        )
        with ExitStack() as patches:
            for owner, name, part in watched:
                timed = self.timed(part, getattr(owner, name))
                # A function, so that it becomes a method.
                patches.enter_context(patch.object(owner, name, timed))
            yield

    def take(self) -> dict[str, int]:
        """Returns what was spent, and begins the next step."""
        spent, self.spent = self.spent, dict.fromkeys(self.spent, 0)
        return spent


def configured(folder: Path, running: int, tokens: int) -> EngineConfig:
    scheduler = SchedulerConfig(
        max_num_seqs=running,
        max_num_batched_tokens=BATCHED_TOKENS,
        async_scheduling=True,
    )
    cache = CacheConfig(num_kv_blocks=running * (tokens // 16 + 2))
    return EngineConfig(
        model=ModelConfig(model=str(folder), max_model_len=tokens),
        cache=cache,
        scheduler=scheduler,
        executor=ExecutorConfig(name="null"),
    )


def measure(
    folder: Path, running: int, options: argparse.Namespace
) -> list[dict[str, int]]:
    """Returns the ns of each part, by step."""
    parts = Parts()
    length = options.prompt_tokens
    steps = options.steps + 2 * WARM_UP - (-running * length // BATCHED_TOKENS)
    config = configured(folder, running, length + steps)
    source = random.Random(0)  # noqa: S311 - the same prompts in each run
    encode = parts.timed("encode", msgspec.msgpack.Encoder(enc_hook=plain).encode)
    decode = parts.timed("decode", msgspec.msgpack.Decoder(StepOutput).decode)
    found: list[dict[str, int]] = []
    with parts.watch(), start_closing(config) as front_end:
        vocab_size = front_end.facts.model.vocab_size
        for token_id in range(vocab_size):
            front_end.tokenizer.token_bytes(token_id)  # as after a while
        params = SamplingParams(max_tokens=steps, ignore_eos=True)
        for _ in range(running):
            prompt = [source.randrange(vocab_size) for _ in range(length)]
            front_end.submit(
                front_end.prepare(prompt, params),
                _drop,
                arrived_at=time.monotonic_ns(),
                is_streamed=True,
            )
        client, decoding = front_end.engines.client, 0
        while len(found) < options.steps:
            if not isinstance(output := client.receive(0), StepOutput):
                continue
            front_end.on_message(decode(encode(output)))
            spent = parts.take()
            if (
                output.record is not None
                and output.record.work.decode_requests == running
            ):
                decoding += 1
                if decoding > WARM_UP:
                    found.append(spent)
    return found


@contextmanager
def start_closing(config: EngineConfig) -> "Iterator[FrontEnd]":
    front_end = start_front_end(config)
    try:
        yield front_end
    finally:
        front_end.close()


def _drop(delivery: object) -> None:
    """Takes an output from the front end."""


def summary(running: int, steps: Sequence[dict[str, int]]) -> dict[str, object]:
    """Medians in ms; sums with their quartiles."""
    row: dict[str, object] = {"running": running, "steps": len(steps)}
    for part in (*ENGINE, *FRONT_END):
        row[part] = round(statistics.median(each[part] for each in steps) / 1e6, 4)
    for name, parts in (("engine_ms", ENGINE), ("front_end_us_a_token", FRONT_END)):
        unit = 1e6 if name == "engine_ms" else 1e3 * running
        sums = [sum(each[part] for part in parts) / unit for each in steps]
        row[name] = [round(each, 3) for each in statistics.quantiles(sums, n=4)]
    return row


def report(rows: Sequence[dict[str, object]]) -> None:
    """Prints the table."""
    names = (*ENGINE, *FRONT_END)
    print("running", *names, "engine (goal)", "front end µs/token (goal)", sep=" | ")
    for row in rows:
        goal = GOALS_MS.get(int(str(row["running"])))
        engine, front_end = row["engine_ms"], row["front_end_us_a_token"]
        parts = [row[name] for name in names]
        ends = (f"{engine} ({goal})", f"{front_end} ({FRONT_END_GOAL_US})")
        print(row["running"], *parts, *ends, sep=" | ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--running", type=int, nargs="+", default=list(GOALS_MS))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--prompt-tokens", type=int, default=64)
    parser.add_argument("--model", choices=NAMES, default="llama-tiny")
    parser.add_argument("--models-folder", type=Path, default=own_folder("models"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    write_models(options.models_folder, (options.model,))
    folder = options.models_folder / options.model
    rows = [summary(each, measure(folder, each, options)) for each in options.running]
    report(rows)
    if options.out is not None:
        options.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
