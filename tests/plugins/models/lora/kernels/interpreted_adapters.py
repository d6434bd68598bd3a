"""Compares the GPU's kernel with its reference, in Triton's interpreter.

In a process of its own, as Triton decides at its import whether it interprets. Prints
the largest error of each case, relative to what is added. bfloat16, which the
interpreter does not round, has the code of float16.
"""

import numpy as np
import torch

from hookline_lora.kernels.gpu_site import GpuSite
from hookline_lora.kernels.parts import Parts, checked
from hookline_lora.kernels.reference import add_reference
from hookline_lora.kernels.rows import StepRows
from hookline_lora.kernels.slices import slices_of

SLOTS = 4
HEADS = [(0, 64), (64, 32), (96, 150)]
ALTERNATING = [(0, 64, 16, 32), (16, 64, 16, 32)]


def error_of(
    dtype: torch.dtype,
    inputs: int,
    slices: list[tuple[int, ...]],
    tokens: int,
    ranks: list[int],
) -> float:
    source = torch.Generator().manual_seed(0)
    places = slices_of(slices)
    site = GpuSite(inputs, places, dtype, SLOTS, "cpu")
    slots: dict[int, Parts] = {}
    for slot in range(SLOTS - 1):
        slots[slot] = [
            (
                torch.randn(rank, inputs, generator=source) / inputs**0.5,
                torch.randn(each.width, rank, generator=source),
            )
            if (rank := ranks[(slot + index) % len(ranks)])
            else None
            for index, each in enumerate(places)
        ]
        site.set(slot, site.packed(checked(slots[slot], inputs, places)))
    site.clear(1)
    del slots[1]
    rows = StepRows(tokens + 3, SLOTS)
    drawn = torch.randint(-1, SLOTS, (tokens,), generator=source).numpy()
    rows.fill(drawn.astype(np.int64))
    values = torch.randn(tokens, inputs, generator=source).to(dtype)
    width = max(each.end for each in places) + 5
    before = torch.randn(tokens, width, generator=source).to(dtype)
    found, expected = before.clone(), before.clone()
    add_reference(expected, values, rows, places, slots)

    site.add(found, values, rows)

    same = (expected == before).all(1)
    assert torch.equal(found[same], before[same])
    added = (expected.float() - before.float()).norm().clamp_min(1e-9)
    return float((found.float() - expected.float()).norm() / added)


def main() -> None:
    for dtype in (torch.float32, torch.float16):
        for case in (
            (96, HEADS, 9, [16, 1, 40, 0]),
            (51, ALTERNATING, 70, [16, 1, 40, 0]),
            (64, [(0, 7)], 1, [3]),
            (64, [(0, 7)], 0, [3]),
        ):
            print(str(dtype), error_of(dtype, *case))  # noqa: T201


main()
