"""Whole prompts on a GPU through an engine: device time and time in all.

usage: python benchmarks/gpu_prompt_steps.py [--models Qwen3-0.6B …] [--out FILE.json]

Random weights; one prompt at a time and one token of output, medians of seven. The
old attention, which reads all keys from the cache with two stages, comes first and
last, so that a drift shows.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from gpu import MODELS
from gpu_engine import Work, hookline, write_model

from hookline_kernels.gpu import attention, prefill
from hookline_kernels.gpu.tilings import Tiling

LENGTHS = (2000, 8000)
ROUNDS = 7
NEW = attention.reads_new_tokens, prefill.paged_tiling


def use(*, new: bool) -> None:
    """Switches the attention of prompts."""
    old: Callable[..., Any] = lambda *_: False  # noqa: E731
    tiling: Callable[..., Any] = lambda _: Tiling(stages=2, ahead=False)  # noqa: E731
    attention.reads_new_tokens = NEW[0] if new else old
    prefill.paged_tiling = NEW[1] if new else tiling


def device_ms(call: Callable[[], object]) -> float:
    """Returns how long kernels ran."""
    activity = torch.profiler.ProfilerActivity.CUDA
    with torch.profiler.profile(activities=[activity]) as profile:
        call()
        torch.cuda.synchronize()
    return sum(each.self_device_time_total for each in profile.key_averages()) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [model.name for model in MODELS]
    parser.add_argument("--models", nargs="+", choices=names, default=names[:1])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for model in (each for each in MODELS if each.name in options.models):
        with tempfile.TemporaryDirectory() as folder:
            write_model(model, Path(folder))
            generate = hookline(Path(folder), "cuda", 8192)
        seed = 0
        for length in LENGTHS:
            for new in (False, True, False):
                use(new=new)
                times, device = [], 0.0
                for number in range(ROUNDS + 2):
                    seed += 1
                    prompt = Work(1, length, 1).prompts(seed)
                    if number == ROUNDS + 1:
                        device = device_ms(partial(generate, prompt, 1))
                        continue
                    start = time.perf_counter()
                    generate(prompt, 1)
                    times.append(time.perf_counter() - start)
                in_all = statistics.median(times[1:]) * 1e3
                row = {"model": model.name, "tokens": length, "new": new}
                rows.append(row | {"ms": in_all, "device_ms": device})
                print(
                    f"| {model.name} | {length} | {'new' if new else 'old'} | "
                    f"device {device:.2f} ms | in all {in_all:.2f} ms |",
                    flush=True,
                )
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
