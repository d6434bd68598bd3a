"""Times attention of decodes by the number of splits, as graphs call it.

Block tables are as wide as the longest context that a graph is captured for.
"""

import itertools
import random
from collections.abc import Iterator
from typing import Any

import torch
from gpu import BLOCK_SIZE, DTYPE, MODELS, kernels, randn

from hookline_kernels import AttentionLayer

MODEL = MODELS[0]
MOST_TOKENS = 8192
POOL_BLOCKS = 20_000
LEAST_READ_BYTES = 120 << 20
LEASTS = (64, 128, 256, 512)
SPLITS = (1, 2, 4, 8, 16, 32)
_DRAWN = random.Random(0)  # noqa: S311 - not for secrets
CASES: dict[str, list[int]] = {
    "1 × 1024": [1024],
    "1 × 8192": [8192],
    "8 × 1024": [1024] * 8,
    "32 × 1024": [1024] * 32,
    "128 uneven": [_DRAWN.randint(100, 2048) for _ in range(128)],
    "256 × 384": [384] * 256,
    "256 uneven": [_DRAWN.randint(100, 2048) for _ in range(256)],
}


def variants() -> Iterator[tuple[int, int]]:
    """Yields least tokens of a split and numbers of splits that differ."""
    for least, splits in itertools.product(LEASTS, SPLITS):
        if splits > 1 or least == LEASTS[0]:
            yield least, splits


def attend(
    query: torch.Tensor,
    layer: AttentionLayer,
    tables: torch.Tensor,
    lengths: torch.Tensor,
    variant: tuple[int, int],
) -> torch.Tensor:
    decode = kernels("decode")
    decode.LEAST_SPLIT_TOKENS, splits = variant
    found: torch.Tensor = decode.decode_attention(
        query, layer, tables, lengths, num_splits=splits
    )
    return found


def compile_variant(variant: tuple[int, int]) -> None:
    """Compiles one variant where launches only compile."""
    cache = torch.empty(1, BLOCK_SIZE, MODEL.kv_heads, MODEL.dim, dtype=DTYPE)
    query = torch.empty(1, MODEL.heads, MODEL.dim, dtype=DTYPE)
    tables = torch.zeros(1, MOST_TOKENS // BLOCK_SIZE, dtype=torch.int64)
    layer = AttentionLayer(cache, cache, MODEL.dim**-0.5)
    attend(query, layer, tables, torch.ones(1, dtype=torch.int64), variant)


def measured_splits(clock: Any, device: torch.device) -> dict[str, dict[str, float]]:
    """Prints and returns the times of one call in µs, by case and variant."""
    least_before = kernels("decode").LEAST_SPLIT_TOKENS
    shape = (POOL_BLOCKS, BLOCK_SIZE, MODEL.kv_heads, MODEL.dim)
    layer = AttentionLayer(*(randn(*shape, device=device) for _ in range(2)), 0.09)
    shown = list(variants())
    print("| decode | µs at 1 split |", end="")
    print(*(f" {n} |" for n in SPLITS[1:]), "(least", *LEASTS, "in each)")
    found: dict[str, dict[str, float]] = {}
    for name, lengths in CASES.items():
        times: dict[tuple[int, int], float] = {}
        read = sum(lengths) * MODEL.kv_heads * MODEL.dim * 4
        copies = max(1, min(24, -(-LEAST_READ_BYTES // read)))
        tables = _tables(lengths, copies, device)
        query = randn(len(lengths), MODEL.heads, MODEL.dim, device=device)
        on_device = torch.tensor(lengths, device=device)
        wanted = None
        for variant in shown:

            def call(
                variant: tuple[int, int] = variant,
                query: torch.Tensor = query,
                tables: list[torch.Tensor] = tables,
                lengths: torch.Tensor = on_device,
            ) -> list[torch.Tensor]:
                return [attend(query, layer, each, lengths, variant) for each in tables]

            try:
                result = call()[0].double()
                wanted = result if wanted is None else wanted
                if float((result - wanted).abs().max()) > 0.02:
                    print("WRONG", name, variant)
                times[variant] = clock.seconds(call) / copies * 1e6
            except Exception as error:  # noqa: BLE001 - the others go on
                print(f"FAILED {name} {variant}: {error!r}"[:300], flush=True)
        found[name] = {f"{a},{b}": time for (a, b), time in times.items()}
        print(f"| {name} | {times.get(shown[0], 0):.1f} |", end="")
        for splits in SPLITS[1:]:
            cells = [times.get((least, splits), 0.0) for least in LEASTS]
            print("", *(f"{cell:.1f}" for cell in cells), "|", end="")
        print(f" read {read / 4.2e6:.1f}", flush=True)
    kernels("decode").LEAST_SPLIT_TOKENS = least_before
    return found


def _tables(
    lengths: list[int], copies: int, device: torch.device
) -> list[torch.Tensor]:
    """Returns block tables of random blocks, different ones as far as they suffice."""
    counts = [-(-length // BLOCK_SIZE) for length in lengths]
    order = torch.randperm(POOL_BLOCKS).tolist()
    blocks = itertools.cycle(order)
    tables = []
    for _ in range(copies):
        table = torch.zeros(len(lengths), MOST_TOKENS // BLOCK_SIZE, dtype=torch.int64)
        for row, count in zip(table, counts, strict=True):
            row[:count] = torch.tensor(list(itertools.islice(blocks, count)))
        tables.append(table.to(device))
    return tables
