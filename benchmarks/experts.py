"""Measures ranks with whole experts against ranks with a part of every expert.

usage: python benchmarks/experts.py [--pairs 10] [--batches 1 8 32] [--tokens 64]
                                    [--ranks 2]

Both engines live at the same time and generate for the same random prompts in turns, as
in `benchmarks/ranks.py`; each rank has one thread.

Prints milliseconds a step of each turn, the median of the ratios (above 1 whole experts
are faster), the imbalance of the experts' ranks and the part of the time that
exchanges between ranks took, waiting included.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from bench_models import WITH_EXPERTS, write_models
from ranks import prompts, step_ms

from hookline import LLM


def engine(model: Path, ranks: int, *, has_whole_experts: bool) -> LLM:
    return LLM(
        str(model),
        tensor_parallel_size=ranks,
        enable_expert_parallel=has_whole_experts,
        threads=1,
        enable_prefix_caching=False,
    )


def total(llm: LLM, name: str) -> float:
    """Sum of a counter's series."""
    return sum(
        each.value
        for family in llm.get_metrics()
        if family.name == name
        for each in family.samples
        if isinstance(each.value, int | float)
    )


def compare(whole: LLM, parts: LLM, batch: int, *, pairs: int, tokens: int) -> None:
    sides = (whole, parts)
    for llm in sides:
        step_ms(llm, prompts(batch, 1001), tokens)
    names = ("hookline_expert_busiest_tokens", "hookline_expert_tokens")
    before = [total(whole, name) for name in names]
    waited = [total(llm, "hookline_rank_exchange_seconds") for llm in sides]
    found: list[tuple[float, float]] = []
    for pair in range(pairs):
        given = prompts(batch, pair)
        order = (0, 1) if pair % 2 == 0 else (1, 0)
        times = {side: step_ms(sides[side], given, tokens) for side in order}
        found.append((times[0], times[1]))
        print(
            f"batch {batch}: whole {times[0]:6.2f} ms, parts {times[1]:6.2f} ms a step",
            flush=True,
        )
    ratios = [after / first for first, after in found]
    busiest, all_tokens = (
        total(whole, name) - start for name, start in zip(names, before, strict=True)
    )
    exchanges = [
        (total(llm, "hookline_rank_exchange_seconds") - start)
        / (sum(each[side] for each in found) * tokens / 1000)
        for side, (llm, start) in enumerate(zip(sides, waited, strict=True))
    ]
    print(
        f"batch {batch}: whole experts have {statistics.median(ratios):.2f} × the "
        f"speed ({min(ratios):.2f} to {max(ratios):.2f}); imbalance "
        f"{busiest / all_tokens:.2f}; exchanges {exchanges[0]:.0%} of their time, "
        f"{exchanges[1]:.0%} with parts",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--ranks", type=int, default=2)
    given = parser.parse_args()
    folder = Path(tempfile.gettempdir()) / "hookline-bench-models"
    write_models(folder, (WITH_EXPERTS,))
    model = folder / WITH_EXPERTS
    with (
        engine(model, given.ranks, has_whole_experts=True) as whole,
        engine(model, given.ranks, has_whole_experts=False) as parts,
    ):
        for batch in given.batches:
            compare(whole, parts, batch, pairs=given.pairs, tokens=given.tokens)
    return 0


if __name__ == "__main__":
    sys.exit(main())
