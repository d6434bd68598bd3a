"""Measures the cost of all loggers together, in throughput.

usage: python benchmarks/logger_cost.py [--model llama-tiny] [--running 64 256]
                                        [--pairs 20] [--loggers prometheus logging …]

Two engines in one process, one with the loggers and one without, generate the same
prompts in turns (A B B A …), greedy and ignoring end-of-text. Adjacent turns run under
the same load of the machine, so their ratio is more reliable than their speeds. Loggers
run on their own threads; a turn includes the wait until they have processed everything.
`otel` sends every request's spans over HTTP to a receiver in another process,
`request_log` writes to a file.

Prints, for each number of running requests, the median of the ratios (time with ÷ time
without) and their spread.
"""

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_folders import own_folder
from bench_models import NAMES, write_models

from hookline import LLM, EngineConfig, ModelConfig, SamplingParams
from hookline.config import ObserverConfig, SchedulerConfig

ALL = ("prometheus", "logging", "otel", "request_log")
RECEIVER = Path(__file__).with_name("trace_receiver.py")


def make_prompts(running: int, tokens: int) -> list[list[int]]:
    source = random.Random(0)  # noqa: S311 - the same prompts for both sides
    return [[source.randrange(3, 8000) for _ in range(tokens)] for _ in range(running)]


def engine(folder: Path, running: int, observers: ObserverConfig) -> LLM:
    config = EngineConfig(
        model=ModelConfig(model=str(folder)),
        scheduler=SchedulerConfig(max_num_seqs=running),
        observers=observers,
    )
    return LLM.from_config(config, collect_metrics=False)


def watched(loggers: tuple[str, ...], port: str, scratch: Path) -> ObserverConfig:
    options = {
        "otel": {
            "traces_endpoint": f"http://127.0.0.1:{port}",
            "protocol": "http/protobuf",
        },
        "request_log": {"path": str(scratch / "requests.jsonl")},
        "logging": {"interval": "1"},
    }
    return ObserverConfig(
        stat_loggers=loggers,
        options={name: given for name, given in options.items() if name in loggers},
        trace_ratio=1.0 if "otel" in loggers else None,
    )


def turn(llm: LLM, prompts: list[list[int]], params: SamplingParams) -> float:
    llm.reset_prefix_cache()
    start = time.perf_counter()
    llm.generate(prompts, params, use_tqdm=False)
    llm.flush()
    return time.perf_counter() - start


def compare(
    options: argparse.Namespace, running: int, observers: ObserverConfig
) -> None:
    folder = options.models_folder / options.model
    prompts = make_prompts(running, options.input_tokens)
    params = SamplingParams(
        temperature=0.0, max_tokens=options.output_tokens, ignore_eos=True
    )
    with (
        engine(folder, running, observers) as ours,
        engine(folder, running, ObserverConfig()) as bare,
    ):
        for llm in (ours, bare):
            turn(llm, prompts, params)
        rows = []
        for pair in range(options.pairs):
            order = (ours, bare) if pair % 2 == 0 else (bare, ours)
            seconds = {id(llm): turn(llm, prompts, params) for llm in order}
            rows.append((seconds[id(ours)], seconds[id(bare)]))
    report(running, rows, running * options.output_tokens)


def report(running: int, rows: list[tuple[float, float]], tokens: int) -> None:
    ratios = [ours / bare for ours, bare in rows]
    low, middle, high = statistics.quantiles(ratios, n=4)
    ours, bare = (statistics.median(column) for column in zip(*rows, strict=True))
    print(
        f"{running} running: {tokens / ours:.0f} tokens/s with, "
        f"{tokens / bare:.0f} without; time with / without {middle:.4f} "
        f"(quartiles {low:.4f} to {high:.4f}, range {min(ratios):.3f} to "
        f"{max(ratios):.3f}, {len(rows)} pairs)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=NAMES, default="llama-tiny")
    folder = own_folder("models")
    parser.add_argument("--models-folder", type=Path, default=folder)
    parser.add_argument("--running", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--input-tokens", type=int, default=32)
    parser.add_argument("--output-tokens", type=int, default=128)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--loggers", nargs="+", default=list(ALL))
    options = parser.parse_args()
    write_models(options.models_folder, (options.model,))
    loggers = tuple(options.loggers)
    print(f"{options.model}, {', '.join(loggers)}", flush=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        subprocess.Popen(  # noqa: S603 - our own receiver
            [sys.executable, "-P", str(RECEIVER)], stdout=subprocess.PIPE, text=True
        ) as receiver,
    ):
        assert receiver.stdout is not None
        port = receiver.stdout.readline().strip()
        try:
            for running in options.running:
                compare(options, running, watched(loggers, port, Path(scratch)))
        finally:
            receiver.terminate()


if __name__ == "__main__":
    main()
