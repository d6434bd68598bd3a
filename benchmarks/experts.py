"""Measures whole experts against a part, or a copy, of every expert.

usage: python benchmarks/experts.py [--pairs 10] [--batches 1 8 32] [--tokens 64]
                                    [--ranks 2] [--engines 1]

Both sides live at the same time and generate for the same random prompts in turns, as
in `benchmarks/ranks.py`; each rank has one thread. With one engine, ranks have whole
experts or a part of every expert. With several, of `--ranks` ranks each, experts are
spread over all of them, or each engine has all; requests go to engines in turns.

Prints milliseconds a step of each turn, the median of the ratios (above 1 whole experts
are faster), the imbalance of the experts' ranks and the part of the time that
exchanges between ranks took, waiting included; of several engines also the part that
their steps waited for each other, the dummy steps, and the memory of each process.
"""

import argparse
import statistics
import sys
from pathlib import Path

from bench_folders import own_folder
from bench_models import WITH_EXPERTS, write_models
from ranks import prompts, step_ms

from hookline import LLM
from hookline_process_engine.process_client import ProcessClient

MIB = 1 << 20
EXCHANGE, WAIT = "hookline_rank_exchange_seconds", "hookline_expert_wait_seconds"
BUSIEST, ALL = "hookline_expert_busiest_tokens", "hookline_expert_tokens"


def start(model: Path, engines: int, ranks: int, *, has_whole_experts: bool) -> LLM:
    return LLM(
        str(model),
        data_parallel_size=engines,
        tensor_parallel_size=ranks,
        enable_expert_parallel=has_whole_experts,
        load_balancing="round-robin",
        threads=1,
        kv_cache_memory="64MiB",
        enable_prefix_caching=False,
        heartbeat_seconds=0.1,
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


def megabytes(llm: LLM) -> str:
    """Memory of each process that computes, shared pages divided by its users."""
    client = llm.front_end.engines.client
    engines = [each.facts for each in llm.front_end.engines]
    pids = [pid for facts in engines for pid in facts.rank_pids]
    if not pids and isinstance(client, ProcessClient):
        pids = list(client.pids.values())
    found = []
    for pid in pids:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        [line] = [line for line in lines if line.startswith("Pss:")]
        found.append(f"{int(line.split()[1]) * 1024 / MIB:.0f}")
    return " and ".join(found) + " MiB"


def compare(whole: LLM, others: LLM, batch: int, *, pairs: int, tokens: int) -> None:
    sides = (whole, others)
    for llm in sides:
        step_ms(llm, prompts(batch, 1001), tokens)
    names = (BUSIEST, ALL, WAIT, "hookline_dummy_steps")
    before = [total(whole, name) for name in names]
    exchanged = [total(llm, EXCHANGE) for llm in sides]
    found: list[tuple[float, float]] = []
    for pair in range(pairs):
        given = prompts(batch, pair)
        order = (0, 1) if pair % 2 == 0 else (1, 0)
        times = {side: step_ms(sides[side], given, tokens) for side in order}
        found.append((times[0], times[1]))
        print(
            f"batch {batch}: whole {times[0]:6.2f} ms, others {times[1]:6.2f} ms a "
            "step",
            flush=True,
        )
    ratios = [after / first for first, after in found]
    busiest, all_tokens, waited, dummies = (
        total(whole, name) - first for name, first in zip(names, before, strict=True)
    )
    engines = len(whole.front_end.engines)
    seconds = [sum(each[side] for each in found) * tokens / 1000 for side in (0, 1)]
    exchanges = [
        (total(llm, EXCHANGE) - first) / spent
        for llm, first, spent in zip(sides, exchanged, seconds, strict=True)
    ]
    print(
        f"batch {batch}: whole experts have {statistics.median(ratios):.2f} × the "
        f"speed ({min(ratios):.2f} to {max(ratios):.2f}); imbalance "
        f"{busiest / all_tokens:.2f}; exchanges {exchanges[0]:.0%} of their time, "
        f"{exchanges[1]:.0%} of the others'; steps waited for engines for "
        f"{waited / engines / seconds[0]:.0%} of the time, and {dummies:.0f} were "
        "dummies",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--engines", type=int, default=1)
    given = parser.parse_args()
    folder = own_folder("models")
    write_models(folder, (WITH_EXPERTS,))
    model, sizes = folder / WITH_EXPERTS, (given.engines, given.ranks)
    with (
        start(model, *sizes, has_whole_experts=True) as whole,
        start(model, *sizes, has_whole_experts=False) as others,
    ):
        for batch in given.batches:
            compare(whole, others, batch, pairs=given.pairs, tokens=given.tokens)
            print(
                f"memory: whole {megabytes(whole)}, others {megabytes(others)}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
