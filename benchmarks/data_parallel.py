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

Prints speed and processor time of each turn, and the medians of the ratios.
"""

import argparse
import json
import random
import tempfile
from pathlib import Path

from bench_models import NAMES, write_models
from server_pairs import Load, Sides, compare, short_load

from hookline.tokenizer import Tokenizer

GROUPS = 64
PREFIX_TOKENS = 384
SUFFIX_TOKENS = 16
BLOCK = 16
ROOM = 0.62
"""Part of all prefixes that one engine's cache holds, beside those of what runs."""


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
            load = short_load(given.requests, given.concurrency)
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
