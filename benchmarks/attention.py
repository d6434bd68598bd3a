"""Compares attention of one layer in plain torch and in compiled kernels.

usage: python benchmarks/attention.py [--rounds 9] [--dtype bfloat16 float32]
           [--heads 12] [--kv-heads 4] [--head-dim 64] [--block-size 16]
           [--cache-dtypes int8 float8_e4m3fn float8_e5m2]

Each round times all sides in turn, so that other load on the machine affects them
equally. Reports the median, minimum and maximum in milliseconds; for caches of 8 bits
beside compiled attention over a cache in the model's dtype.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from hookline_kernels import (
    AttentionLayer,
    AttentionMetadata,
    choose_attention,
    new_keys,
    new_values,
    reference_attention,
)
from hookline_kernels.attention import write_slots

DECODES = [
    (count, length) for length in (192, 1000, 3500) for count in (1, 8, 128, 256)
]
PROMPTS = [(128, 128), (1000, 1000), (3500, 3500), (2048, 3500)]
MOST_BYTES = 4 * 2**30


@dataclass(frozen=True, slots=True)
class Model:
    """The shape of a layer.

    Attributes:
        heads: Number of query heads.
        kv_heads: Number of KV heads.
        head_dim: Dimension of all heads.
        block_size: Tokens per block.
        dtype: Dtype of the queries and the cache.
    """

    heads: int
    kv_heads: int
    head_dim: int
    block_size: int
    dtype: torch.dtype

    def cache_bytes(self, tokens: int) -> int:
        return 2 * tokens * self.kv_heads * self.head_dim * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, minimum and maximum of a side's times in milliseconds."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, seconds: list[float]) -> "Spread":
        times = [1000 * second for second in seconds]
        return cls(statistics.median(times), min(times), max(times))

    def __str__(self) -> str:
        return f"{self.median:9.3f} ({self.least:.3f} to {self.most:.3f})"


def make_metadata(model: Model, sequences: list[tuple[int, int]]) -> AttentionMetadata:
    """Returns a step of (new tokens, all tokens) per sequence, in random blocks."""
    counts = [-(-length // model.block_size) for _, length in sequences]
    order = torch.randperm(sum(counts))
    tables = torch.zeros(len(counts), max(counts), dtype=torch.int64)
    slots, used = [], 0
    for row, (new, length) in enumerate(sequences):
        tables[row, : counts[row]] = order[used : used + counts[row]]
        used += counts[row]
        at = torch.arange(length - new, length)
        pages = tables[row, at // model.block_size]
        slots.append(pages * model.block_size + at % model.block_size)
    return AttentionMetadata(
        slot_mapping=torch.cat(slots),
        block_tables=tables,
        query_lens=[new for new, _ in sequences],
        seq_lens=[length for _, length in sequences],
        num_decodes=sum(new == 1 for new, _ in sequences),
        seq_lens_tensor=torch.tensor([length for _, length in sequences]),
    )


Sides = dict[str, Callable[[], torch.Tensor]]


def sides(
    model: Model, sequences: list[tuple[int, int]], cache_dtypes: list[torch.dtype]
) -> Sides:
    """Returns implementations of a step, each with its cache layout."""
    metadata = make_metadata(model, sequences)
    total = sum(new for new, _ in sequences)
    blocks = int(metadata.block_tables.max()) + 1
    shape = (blocks, model.block_size, model.kv_heads, model.head_dim)

    def randn(heads: int) -> torch.Tensor:
        return torch.randn(total, heads, model.head_dim).to(model.dtype)

    query, key, value = (
        randn(heads) for heads in (model.heads, model.kv_heads, model.kv_heads)
    )
    keys, values = (torch.randn(shape).to(model.dtype) for _ in range(2))
    scale = model.head_dim**-0.5
    plain = AttentionLayer(keys, values, scale)
    found: Sides = {
        "torch": lambda: reference_attention(query, key, value, plain, metadata)
    }
    slots = torch.arange(blocks * model.block_size)
    for dtype in (model.dtype, *cache_dtypes):
        laid_out = AttentionLayer(
            new_keys(*shape, dtype), new_values(*shape, dtype), scale
        )
        write_slots(laid_out.keys, keys.flatten(0, 1), slots)
        write_slots(laid_out.values, values.flatten(0, 1), slots)
        chosen = choose_attention(
            num_heads=model.heads,
            num_kv_heads=model.kv_heads,
            key_dim=model.head_dim,
            value_dim=model.head_dim,
            block_size=model.block_size,
            dtype=model.dtype,
            cache_dtype=dtype,
        )
        attend = partial(chosen.attend, query, key, value, laid_out, metadata)
        found[str(dtype).removeprefix("torch.")] = attend
    return found


def time_in_turn(
    calls: dict[str, Callable[[], torch.Tensor]], rounds: int
) -> dict[str, Spread]:
    """Times all sides in turn, after one warmup round."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: Spread.of(seconds[1:]) for name, seconds in times.items()}


def report(
    model: Model,
    work: str,
    sequences: list[tuple[int, int]],
    rounds: int,
    cache_dtypes: list[torch.dtype],
) -> None:
    """Prints a row of the table, and one for each dtype of a cache of 8 bits."""
    read = model.cache_bytes(sum(length for _, length in sequences))
    if read > MOST_BYTES:
        print(f"{work:28} needs {read / 2**30:.1f} GiB; left out")
        return
    found = time_in_turn(sides(model, sequences, cache_dtypes), rounds)
    torch_side, compiled, *others = found.values()
    print(
        f"{work:28} torch {torch_side!s:32} compiled {compiled!s:30} "
        f"{torch_side.median / compiled.median:6.1f} x "
        f"{read / compiled.least / 1e6:6.1f} GB/s",
        flush=True,
    )
    for dtype, other in zip(cache_dtypes, others, strict=True):
        name = str(dtype).removeprefix("torch.")
        print(f"  {name:26} {other!s:32} {compiled.median / other.median:6.2f} x")


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--dtype", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--kv-heads", type=int, default=4)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--block-size", type=int, default=16)
    parser.add_argument("--cache-dtypes", nargs="*", default=[])
    options = parser.parse_args()
    cache_dtypes = [getattr(torch, name) for name in options.cache_dtypes]
    for dtype in options.dtype:
        model = Model(
            options.heads,
            options.kv_heads,
            options.head_dim,
            options.block_size,
            getattr(torch, dtype),
        )
        load = os.getloadavg()[0]
        print(f"{model}, {torch.get_num_threads()} threads, load {load:.1f}")
        for count, length in DECODES:
            work = f"decode {count} x {length}"
            report(model, work, [(1, length)] * count, options.rounds, cache_dtypes)
        for new, length in PROMPTS:
            work = f"prefill {new} of {length}"
            report(model, work, [(new, length)], options.rounds, cache_dtypes)
        print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
