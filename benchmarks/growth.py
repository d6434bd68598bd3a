"""Measures how the time of a step grows with running and with waiting requests.

usage: python benchmarks/growth.py --out FOLDER [--rounds 100] [--model llama-tiny]

running    1 to 512 decoding requests: scheduling alone, with an executor that takes no
           time, and whole steps of a small model
waiting    0 to 10 000 requests that wait behind 64 running ones: scheduling alone

Each row is the median of --rounds steps. Scheduling is everything but execution:
planning, updating requests, building outputs. The state, which visits every request, is
built once a second rather than in every step. Writes `growth.md`, `running.svg` and
`waiting.svg`.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench_folders import own_folder
from bench_models import NAMES, write_models
from line_plot import line_plot

from hookline.clock import SystemClock
from hookline.config import CacheConfig, EngineConfig, ModelConfig, SchedulerConfig
from hookline.engine.engine_core import EngineCore
from hookline.engine_setup.building import build_core
from hookline.finish_cause import Aborted
from hookline.request import GenerateRequest
from hookline.sampling_params import SamplingParams
from hookline_simulated.config import SimulationConfig as Simulation
from hookline_testing.simulation import simulated_core

RUNNING = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
WAITING = (0, 10, 100, 1000, 10_000)
BACKGROUND = 64
PROMPT_TOKENS = 32
MAX_MODEL_LEN = 1024
GREEDY = SamplingParams(temperature=0.0, max_tokens=MAX_MODEL_LEN - PROMPT_TOKENS)
WARMING_SECONDS = 4.0
"""Warmup: steps are slower until the cache's first blocks have been written."""
NO_TIME = Simulation(
    step_seconds=0.0, prefill_token_seconds=0.0, decode_request_seconds=0.0
)


class Row(NamedTuple):
    """Median times in milliseconds."""

    requests: int
    schedule: float
    update: float
    scheduling: float
    step: float
    state: float


def simulated(max_num_seqs: int) -> EngineCore:
    return simulated_core(
        clock=SystemClock(),
        cache=CacheConfig(num_kv_blocks=max_num_seqs * MAX_MODEL_LEN // 16),
        scheduler=SchedulerConfig(max_num_seqs=max_num_seqs),
        simulation=NO_TIME,
        max_model_len=MAX_MODEL_LEN,
    )


def modelled(folder: Path, max_num_seqs: int) -> EngineCore:
    config = EngineConfig(
        model=ModelConfig(model=str(folder), max_model_len=MAX_MODEL_LEN),
        cache=CacheConfig(num_kv_blocks=max_num_seqs * MAX_MODEL_LEN // 16),
        scheduler=SchedulerConfig(max_num_seqs=max_num_seqs),
    )
    core = build_core(config, SystemClock())
    time.sleep(WARMING_SECONDS)
    return core


def measure(core: EngineCore, requests: int, running: int, rounds: int) -> Row:
    """Times steps in which all running requests decode and none joins or leaves."""
    first = core.report("before").stats.totals.received
    for number in range(first, first + requests):
        prompt = [3 + (number + at) % 900 for at in range(PROMPT_TOKENS)]
        core.add(
            GenerateRequest(request_id=number, prompt_token_ids=prompt, params=GREEDY)
        )
    while (
        record := core.step().record
    ) is None or record.work.decode_requests < running:
        pass
    columns: list[list[float]] = [[] for _ in range(4)]
    for _ in range(rounds):
        start = time.perf_counter_ns()
        record = core.step().record
        whole = time.perf_counter_ns() - start
        assert record is not None
        executed = record.executed_at - record.scheduled_at
        columns[0].append(record.scheduled_at - record.started_at)
        columns[1].append(record.ended_at - record.executed_at)
        columns[2].append(whole - executed)
        columns[3].append(whole)
    states: list[float] = []
    for _ in range(5):
        start = time.perf_counter_ns()
        core.report("heartbeat")
        states.append(time.perf_counter_ns() - start)
    core.finish(range(first, first + requests), Aborted("measured"))
    medians = [statistics.median(each) / 1e6 for each in (*columns, states)]
    return Row(requests, *medians)


def table(heads: Sequence[str], rows: Sequence[Sequence[float]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|" + " --: |" * len(heads)]
    for count, *values in rows:
        cells = [f"{count:.0f}", *(f"{value:.3f}" for value in values)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--model", choices=NAMES, default="llama-tiny")
    folder = own_folder("models")
    parser.add_argument("--models-folder", type=Path, default=folder)
    options = parser.parse_args()
    write_models(options.models_folder, (options.model,))
    model, rounds = options.models_folder / options.model, options.rounds

    pretended, real = simulated(max(RUNNING)), modelled(model, max(RUNNING))
    running, steps = [], []
    for count in RUNNING:
        running.append(measure(pretended, count, count, rounds))
        steps.append(measure(real, count, count, rounds))
    real.close()
    engine = simulated(BACKGROUND)
    waiting = [
        measure(engine, BACKGROUND + count, BACKGROUND, rounds) for count in WAITING
    ]

    options.out.mkdir(parents=True, exist_ok=True)
    head = ("schedule", "update", "scheduling in all")
    text = "Milliseconds a step.\n\n" + table(
        ("running", *head, f"step of {options.model}"),
        [(*row[:4], whole.step) for row, whole in zip(running, steps, strict=True)],
    )
    text += f"\nBehind {BACKGROUND} running requests:\n\n" + table(
        ("waiting", *head, "state, once a second"),
        [
            (count, *row[1:4], row.state)
            for count, row in zip(WAITING, waiting, strict=True)
        ],
    )
    (options.out / "growth.md").write_text(text)
    (options.out / "running.svg").write_text(
        line_plot(
            "Milliseconds a step by running requests",
            RUNNING,
            {
                "scheduling": [row.scheduling for row in running],
                f"step of {options.model}": [row.step for row in steps],
            },
        )
    )
    (options.out / "waiting.svg").write_text(
        line_plot(
            "Milliseconds a step by waiting requests",
            WAITING,
            {"scheduling": [row.scheduling for row in waiting]},
        )
    )
    print(text)


if __name__ == "__main__":
    main()
