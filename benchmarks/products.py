"""Compares products with those of oneDNN and torch, by number of rows.

usage: python benchmarks/products.py [--dtype bfloat16|float32] [--inputs 768]
                                     [--outputs 4096] [--rows 1 8 …] [--rounds 9]

HOOKLINE_CPU_ISA limits both sides to an instruction set. Weights are cold, as a model's
are: each product of a round has another weight, 200 MB in all. Both sides take turns;
times are medians of rounds, ratios those of each round (median, minimum, maximum).
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch.nn import functional

from hookline_kernels.cpu.isa import current_isa
from hookline_kernels.cpu.linear import can_pack, pack, packed_linear
from hookline_kernels.modules.linears import FastLinear

WEIGHTS_BYTES = 200 << 20
MOST_OPERATIONS = 2e10
"""Per round and side; with many rows fewer weights suffice."""

Product = Callable[[torch.Tensor], torch.Tensor]


def reading_rate() -> float:
    """Returns the GB/s at which torch reads memory, the best of five."""
    numbers = torch.ones(150_000_000)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        numbers.sum()
        seconds.append(time.perf_counter() - start)
    return numbers.nbytes / min(seconds) / 1e9


def peer_of(weight: torch.Tensor) -> Product:
    """Returns oneDNN's product with a packed weight, where torch has one."""
    if not can_pack(weight):
        return lambda values: functional.linear(values, weight)
    packed = pack(weight)
    return lambda values: packed_linear(values, packed, None)


def seconds_of(products: Sequence[Product], values: torch.Tensor) -> float:
    """Returns the seconds of one product."""
    start = time.perf_counter()
    for product in products:
        product(values)
    return (time.perf_counter() - start) / len(products)


def compare(
    ours: Sequence[Product], peers: Sequence[Product], values: torch.Tensor, rounds: int
) -> str:
    """Returns a row of the table."""
    pairs = [
        (seconds_of(ours, values), seconds_of(peers, values)) for _ in range(rounds + 1)
    ][1:]
    own, other = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratios = [peer / mine for mine, peer in pairs]
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return (
        f"| {len(values)} | {1e6 * own:.0f} | {1e6 * other:.0f} "
        f"| {statistics.median(ratios):.2f} ({spread}) |"
    )


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--inputs", type=int, default=768)
    parser.add_argument("--outputs", type=int, default=4096)
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[1, 4, 8, 16, 32, 128, 512, 2048]
    )
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    dtype = getattr(torch, options.dtype)
    shape = options.outputs, options.inputs
    operations = 2 * options.outputs * options.inputs
    count = max(2, WEIGHTS_BYTES // (operations // 2 * dtype.itemsize))
    weights = [torch.randn(shape).mul_(0.02).to(dtype) for _ in range(count)]
    ours = [FastLinear(weight, None) for weight in weights]
    peers = [peer_of(weight) for weight in weights]
    print(
        f"{current_isa().value}, {options.dtype}, {options.inputs} inputs, "
        f"{options.outputs} outputs, {torch.get_num_threads()} threads; memory is read "
        f"at {reading_rate():.1f} GB/s\n\n"
        "| rows | Hookline, µs | torch, µs | torch ÷ Hookline |\n"
        "| --: | --: | --: | --- |"
    )
    for rows in options.rows:
        used = max(2, min(count, int(MOST_OPERATIONS / (rows * operations))))
        values = torch.randn(rows, options.inputs).to(dtype)
        print(compare(ours[:used], peers[:used], values, options.rounds), flush=True)


if __name__ == "__main__":
    main()
