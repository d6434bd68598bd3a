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
import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench_models import write_models
from server_pairs import Load, take_turn

from hookline_testing.server_process import Server, descendants_of, serving

MODEL = "llama-tiny"
_TICKS = os.sysconf("SC_CLK_TCK")
_KINDS = {
    "api_servers.child": "API servers",
    "engine_process": "engine",
    "observer": "observer",
    "text.process": "texts",
}


def _kind(pid: int, server: Server) -> str:
    if pid == server.process.pid:
        return "main"
    line = Path(f"/proc/{pid}/cmdline").read_text()
    return next((kind for part, kind in _KINDS.items() if part in line), "other")


def cpu_seconds(server: Server) -> dict[str, float]:
    """Processor time of all processes of a server so far, by their kind."""
    found: dict[str, float] = {}
    for pid in {server.process.pid} | descendants_of(server.process.pid):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        kind, ticks = _kind(pid, server), int(fields[11]) + int(fields[12])
        found[kind] = found.get(kind, 0.0) + ticks / _TICKS
    return found


def turns(pairs: int) -> Iterator[tuple[int, int]]:
    """The order of the two sides in each pair."""
    for number in range(pairs):
        yield (0, 1) if number % 2 == 0 else (1, 0)


def compare(load: Load, servers: int, pairs: int, tokens: int, model: Path) -> None:
    common = ("--port=0", f"--model={model}", "--executor=simulated")
    sides = ((f"--api-server-count={servers}",), ())
    used: tuple[dict[str, float], dict[str, float]] = ({}, {})
    ratios = []
    with ExitStack() as stack:
        both = [stack.enter_context(serving(*common, *side)) for side in sides]
        for server in both:
            take_turn(server, model, load)
        for order in turns(pairs):
            speeds = {}
            for at in order:
                before = cpu_seconds(both[at])
                speeds[at] = take_turn(both[at], model, load).speed
                for kind, seconds in cpu_seconds(both[at]).items():
                    spent = seconds - before.get(kind, 0.0)
                    used[at][kind] = used[at].get(kind, 0.0) + spent
            ratios.append(speeds[0] / speeds[1])
            print(f"{speeds[0]:8.0f} {speeds[1]:8.0f} tok/s  ratio {ratios[-1]:.2f}")
    low, high = min(ratios), max(ratios)
    print(f"median ratio {statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})")
    for name, each in zip((f"{servers} servers", "one"), used, strict=True):
        parts = {kind: 1e6 * seconds / pairs / tokens for kind, seconds in each.items()}
        shown = ", ".join(f"{kind} {ms:.0f}" for kind, ms in sorted(parts.items()))
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
