"""Measures two API servers against one, with a simulated engine that takes no time.

usage: python benchmarks/api_servers.py [--pairs 5] [--requests 1000] [--concurrency 64]
                                        [--servers 2] [--output-len 32]

Short random prompts, streamed. Both commands run at the same time and get the same
load in turns (A B B A …), from `hookline bench serve` on the same machine; adjacent
turns run under the same load of the machine. Each gets the load once before.

Prints the output tokens per second of each turn with their ratio, and the processor
time that each kind of process took per 1000 tokens. One server cannot use more than one
core, so with enough cores for all processes the possible speed-up is the time of the
one server divided by that of the busiest process beside several.
"""

import argparse
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench_models import write_models
from processor_time import per_1000_tokens
from server_pairs import Load, take_turn

from hookline_testing.server_process import serving

MODEL = "llama-tiny"


def turns(pairs: int) -> Iterator[tuple[int, int]]:
    """The order of the two sides in each pair."""
    for number in range(pairs):
        yield (0, 1) if number % 2 == 0 else (1, 0)


def compare(load: Load, servers: int, pairs: int, tokens: int, model: Path) -> None:
    common = ("--port=0", f"--model={model}", "--executor=simulated")
    sides = ((f"--api-server-count={servers}",), ())
    used: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    ratios = []
    with ExitStack() as stack:
        both = [stack.enter_context(serving(*common, *side)) for side in sides]
        for server in both:
            take_turn(server, model, load)
        for order in turns(pairs):
            speeds = {}
            for at in order:
                turn = take_turn(both[at], model, load)
                speeds[at] = turn.speed
                used[at].update(turn.spent)
            ratios.append(speeds[0] / speeds[1])
            print(f"{speeds[0]:8.0f} {speeds[1]:8.0f} tok/s  ratio {ratios[-1]:.2f}")
    low, high = min(ratios), max(ratios)
    print(f"median ratio {statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})")
    for name, each in zip((f"{servers} servers", "one"), used, strict=True):
        shown = per_1000_tokens(each, pairs * tokens)
        print(f"{name}: ms of processor time per 1000 tokens: {shown}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--output-len", type=int, default=32)
    given = parser.parse_args()
    load = Load(
        (
            f"--num-prompts={given.requests}",
            "--random-input-len=16",
            f"--random-output-len={given.output_len}",
            "--prompt-token-ids",
        ),
        given.concurrency,
    )
    with tempfile.TemporaryDirectory() as folder:
        write_models(Path(folder), (MODEL,))
        tokens = given.requests * given.output_len
        model = Path(folder) / MODEL
        compare(load, given.servers, given.pairs, tokens, model)


if __name__ == "__main__":
    main()
