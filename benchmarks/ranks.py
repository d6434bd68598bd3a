"""Measures several ranks of one thread against one rank of as many threads.

usage: python benchmarks/ranks.py [--model llama-90m] [--pairs 10] [--batches 1 8]
                                  [--tokens 64] [--tensor 2] [--pipeline 1]

Both engines live at the same time and generate for the same random prompts of 32 tokens
in turns (A B B A …), greedily. Adjacent turns run under the same load of the machine,
so their ratio is more reliable than their times.

Prints milliseconds a step of each turn, the shares of the ranks' time that exchanges
and the handing over of steps took, and the median of the ratios: above 1 the ranks are
faster.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench_folders import own_folder
from bench_models import NAMES, write_models

from hookline import LLM, SamplingParams

PROMPT_TOKENS = 32


def engine(model: Path, *, tensor: int, pipeline: int, threads: int) -> LLM:
    return LLM(
        str(model),
        tensor_parallel_size=tensor,
        pipeline_parallel_size=pipeline,
        threads=threads,
        enable_prefix_caching=False,
    )


def prompts(count: int, seed: int) -> list[list[int]]:
    source = random.Random(seed)  # noqa: S311 - the same for both sides
    return [
        [source.randrange(300, 8000) for _ in range(PROMPT_TOKENS)]
        for _ in range(count)
    ]


def step_ms(llm: LLM, given: list[list[int]], tokens: int) -> float:
    """Milliseconds for a token of each request, the prompts' step included."""
    params = SamplingParams(max_tokens=tokens, ignore_eos=True, temperature=0.0)
    started = time.perf_counter()
    llm.generate(given, params, use_tqdm=False)
    return 1000 * (time.perf_counter() - started) / tokens


def overhead(llm: LLM) -> dict[str, float]:
    """Seconds that the ranks have spent on exchanges and on handing steps over."""
    found: dict[str, float] = {}
    for family in llm.get_metrics():
        for each in family.samples:
            if isinstance(each.value, float):
                found[family.name] = each.value
    return {
        what: found[f"hookline_rank_{what}_seconds"]
        for what in ("exchange", "handover")
    }


def compare(sides: Sequence[LLM], batch: int, *, pairs: int, tokens: int) -> None:
    for llm in sides:
        for seed in (1001, 1002):  # the second records its steps
            step_ms(llm, prompts(batch, seed), tokens)
    before, ratios, spent = overhead(sides[0]), [], 0.0
    for pair in range(pairs):
        given = prompts(batch, pair)
        order = (0, 1) if pair % 2 == 0 else (1, 0)
        found = {side: step_ms(sides[side], given, tokens) for side in order}
        ratios.append(found[1] / found[0])
        spent += found[0] * tokens / 1000
        print(
            f"batch {batch}: ranks {found[0]:6.2f} ms, one rank {found[1]:6.2f} ms a "
            f"step, ratio {ratios[-1]:.2f}",
            flush=True,
        )
    shares = [
        f"{what} {(after - before[what]) / spent:.0%}"
        for what, after in overhead(sides[0]).items()
    ]
    print(
        f"batch {batch}: {statistics.median(ratios):.2f} × the speed of one rank "
        f"({min(ratios):.2f} to {max(ratios):.2f}); of the ranks' time: "
        f"{', '.join(shares)}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=NAMES, default="llama-90m")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--tensor", type=int, default=2)
    parser.add_argument("--pipeline", type=int, default=1)
    given = parser.parse_args()
    folder = own_folder("models")
    write_models(folder, (given.model,))
    model, ranks = folder / given.model, given.tensor * given.pipeline
    with (
        engine(
            model, tensor=given.tensor, pipeline=given.pipeline, threads=1
        ) as several,
        engine(model, tensor=1, pipeline=1, threads=ranks) as alone,
    ):
        for batch in given.batches:
            compare((several, alone), batch, pairs=given.pairs, tokens=given.tokens)
    return 0


if __name__ == "__main__":
    sys.exit(main())
