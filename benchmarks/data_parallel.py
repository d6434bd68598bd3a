"""Measures several engines behind one server, and ways to place requests on them.

usage: python benchmarks/data_parallel.py engines|prefix [--pairs 5] [--model NAME]
                                          [--requests 256] [--concurrency 32]

engines   two engines of one thread against one engine of two threads: short random
          prompts, streamed
prefix    two engines of one thread, balanced by prefix against round robin: 64 groups
          of requests, each with a long common prefix, in random order. The KV cache of
          one engine holds the prefixes of little more than half of the groups

Both servers run at the same time and get the same load in turns (A B B A …), from
`hookline bench serve` on the same machine. Adjacent turns run under the same load of
the machine, so their ratio is more reliable than their speeds. Each server gets the
load once before.

Prints the output tokens per second of each turn, and the median of the ratios.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench_models import NAMES, write_models

from hookline.tokenizer import Tokenizer
from hookline_testing.server_process import Server, serving

GROUPS = 64
PREFIX_TOKENS = 384
SUFFIX_TOKENS = 16
BLOCK = 16
ROOM = 0.62
"""Part of all prefixes that one engine's cache holds, beside those of what runs."""
SHORT_TOKENS = 32


class Load(NamedTuple):
    """What the client sends: options of `hookline bench serve`."""

    options: tuple[str, ...]
    concurrency: int


class Sides(NamedTuple):
    """Options of the two servers; the first is expected to be faster."""

    first: tuple[str, ...]
    second: tuple[str, ...]


def engine_sides() -> Sides:
    return Sides(
        first=("--data-parallel-size=2", "--threads=1"), second=("--threads=2",)
    )


def prefix_sides(concurrency: int) -> Sides:
    held = int(GROUPS * ROOM) * PREFIX_TOKENS
    running = concurrency * (PREFIX_TOKENS + 2 * SUFFIX_TOKENS)
    common = (
        "--data-parallel-size=2",
        "--threads=1",
        f"--num-kv-blocks={(held + running // 2) // BLOCK}",
    )
    return Sides(
        first=(*common, "--load-balancing=prefix"),
        second=(*common, "--load-balancing=round-robin"),
    )


def engine_load(requests: int, concurrency: int) -> Load:
    return Load(
        (
            f"--num-prompts={requests}",
            f"--random-input-len={SHORT_TOKENS}",
            "--random-output-len=64",
            "--prompt-token-ids",
        ),
        concurrency,
    )


def prefix_load(
    requests: int, concurrency: int, model: Path, file: Path, seed: int
) -> Load:
    """Writes prompts: as many of each group, in random order, with new ends."""
    tokenizer = Tokenizer.load(model)
    common, own = random.Random(0), random.Random(seed)  # noqa: S311 - for both sides

    def text(source: random.Random, length: int) -> str:
        return tokenizer.decode([source.randrange(300, 8000) for _ in range(length)])

    prefixes = [text(common, PREFIX_TOKENS) for _ in range(GROUPS)]
    prompts = [
        prefixes[number % GROUPS] + text(own, SUFFIX_TOKENS)
        for number in range(requests)
    ]
    own.shuffle(prompts)
    lines = [json.dumps({"prompt": each, "output_tokens": 16}) for each in prompts]
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return Load(
        (
            f"--num-prompts={requests}",
            "--dataset-name=custom",
            f"--dataset-path={file}",
        ),
        concurrency,
    )


def speed(server: Server, model: Path, load: Load) -> float:
    """Sends the load; returns output tokens per second."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        subprocess.run(  # noqa: S603 - no input of anyone else
            [
                *(sys.executable, "-m", "hookline_server", "bench", "serve"),
                *("--port", str(server.port), "--tokenizer", str(model)),
                *("--max-concurrency", str(load.concurrency), "--temperature=0"),
                *("--disable-tqdm", "--output-json", str(file), *load.options),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        result = json.loads(file.read_text("utf-8"))
    assert not result["failed"], "requests failed"
    return float(result["output_throughput"])


def compare(sides: Sides, model: Path, loads: Sequence[Load]) -> None:
    """Measures one pair for each load but the first, which warms the servers."""
    common = ("--port=0", f"--model={model}", "--max-model-len=1024")
    threads = {"OMP_NUM_THREADS": "2"}  # the options take precedence
    with ExitStack() as stack:
        servers = [
            stack.enter_context(serving(*common, *side, environment=threads))
            for side in sides
        ]
        for server in servers:
            speed(server, model, loads[0])
        ratios = []
        for number, load in enumerate(loads[1:]):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            speeds = {at: speed(servers[at], model, load) for at in order}
            ratios.append(speeds[0] / speeds[1])
            print(
                f"{speeds[0]:8.0f} {speeds[1]:8.0f} tok/s  ratio {ratios[-1]:.2f}",
                flush=True,
            )
    print(
        f"median ratio {statistics.median(ratios):.2f} "
        f"({min(ratios):.2f} to {max(ratios):.2f}); first: {' '.join(sides.first)}; "
        f"second: {' '.join(sides.second)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("engines", "prefix"))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--model", choices=NAMES)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--concurrency", type=int, default=32)
    given = parser.parse_args()
    is_prefix = given.what == "prefix"
    name = given.model or ("llama-90m" if is_prefix else "llama-tiny")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        write_models(scratch, (name,))
        if not is_prefix:
            load = engine_load(given.requests, given.concurrency)
            compare(engine_sides(), scratch / name, [load] * (1 + given.pairs))
            return
        loads = [
            prefix_load(
                given.requests,
                given.concurrency,
                scratch / name,
                scratch / f"groups-{number}",
                1 + number,
            )
            for number in range(1 + given.pairs)
        ]
        compare(prefix_sides(given.concurrency), scratch / name, loads)


if __name__ == "__main__":
    main()
