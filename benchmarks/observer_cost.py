"""Measures what an observer process costs a server with the default loggers.

usage: python benchmarks/observer_cost.py [--pairs 10] [--model llama-tiny]
                                          [--requests 512] [--concurrency 64]

Two servers, one with `--observer-process`, get the same streams of short prompts in
turns; see `server_pairs.py`. Prints speed and processor time of each turn, the medians
of the ratios, and the processor time of each kind of process: what the process costs is
its time and the main process's against that of the main process alone.
"""

import argparse
import tempfile
from pathlib import Path

from bench_models import NAMES, write_models
from server_pairs import Sides, compare, short_load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--model", choices=NAMES, default="llama-tiny")
    parser.add_argument("--requests", type=int, default=512)
    parser.add_argument("--concurrency", type=int, default=64)
    given = parser.parse_args()
    sides = Sides(first=("--observer-process",), second=())
    load = short_load(given.requests, given.concurrency)
    with tempfile.TemporaryDirectory() as folder:
        write_models(Path(folder), (given.model,))
        compare(sides, Path(folder) / given.model, [load] * (1 + given.pairs))


if __name__ == "__main__":
    main()
