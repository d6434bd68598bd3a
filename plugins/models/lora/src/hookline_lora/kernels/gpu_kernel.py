"""One launch for all adapters of a step on a GPU, for one product of the base model.

A program takes up to 16 or 64 rows of one adapter and 128 outputs of one layer. It
computes A·x of its rows itself, although other programs need it for other outputs: that
costs less than a second launch, and memory that all of a step's rows would need. The
grid depends on the number of tokens alone; programs without rows end at once. The
fastest are bfloat16 and float16, by tensor cores; float32 does without them.
"""

from typing import NamedTuple

import torch

from hookline_kernels.gpu.jit import kernel, power_of_two, tl
from hookline_kernels.gpu.launching import launch

OUTPUTS = 128
"""Outputs of a program."""
SLOT, PART = 2, 3
"""int64s of a slot without its slices, and of a slice in it."""
PLACE = 4
"""int32s of a program's outputs: slice, first output, and those of `Slice` it needs."""
_FEW, _MANY = 16, 64
"""Rows of a program."""
_MOST_OF_FEW = 64
"""Most tokens of a step whose programs take few rows."""
_RANKS = 16
"""Ranks that are computed at a time, the least that tensor cores take."""
_INPUTS = 64
"""Inputs that are loaded at a time."""


class Addresses(NamedTuple):
    """What a kernel reads besides values, at addresses that never change.

    Attributes:
        table: int64 [max_loras, SLOT + PART · slices]: for each slot the address of A
            [ranks, in] and its ranks, and for each slice its first rank, its rank, and
            the address of B [width, rank].
        rows: int32 memory of `StepRows`.
        tiles: int32 [programs, 2]: slice and first output of each 128 outputs.
        slices: int32 [slices, 4]: offset, width, block and stride.
    """

    table: torch.Tensor
    rows: torch.Tensor
    tiles: torch.Tensor
    slices: torch.Tensor


def add_adapters(
    output: torch.Tensor, values: torch.Tensor, given: Addresses, max_loras: int
) -> None:
    """Adds B·(A·x) to the rows that have an adapter.

    Args:
        output: [T, out] contiguous; changed in place.
        values: [T, in] contiguous, of the same dtype.
        given: The site's and the step's.
        max_loras: Number of slots.
    """
    tokens, inputs = values.shape
    rows = _FEW if tokens <= _MOST_OF_FEW else _MANY
    tiles = min(-(-tokens // rows) + max_loras, tokens)
    if not tiles:
        return
    launch(
        _adapt_kernel,
        (tiles, len(given.tiles)),
        *(values, output, *given, inputs, output.shape[1], max_loras),
        words=given.table.shape[1],
        groups_pad=power_of_two(max_loras),
        rows_pad=rows,
        outputs_pad=OUTPUTS,
        ranks_pad=_RANKS,
        step=_INPUTS,
        num_warps=4,
    )


@kernel
def _adapt_kernel(  # noqa: PLR0917 - a kernel takes no keywords
    values: tl.tensor,
    output: tl.tensor,
    table: tl.tensor,
    rows: tl.tensor,
    tiles: tl.tensor,
    slices: tl.tensor,
    inputs: tl.tensor,
    outputs: tl.tensor,
    max_loras: tl.tensor,
    words: tl.constexpr,
    groups_pad: tl.constexpr,
    rows_pad: tl.constexpr,
    outputs_pad: tl.constexpr,
    ranks_pad: tl.constexpr,
    step: tl.constexpr,
) -> None:
    """Adds to some outputs of some rows of one adapter."""
    dtype: tl.constexpr = output.dtype.element_ty
    groups = tl.load(rows + 1)
    group = tl.arange(0, groups_pad)
    is_group = group < groups
    begins = tl.load(rows + 2 + group, mask=is_group, other=0)
    ends = tl.load(rows + 3 + group, mask=is_group, other=0)
    last_tiles = tl.cumsum((ends - begins + rows_pad - 1) // rows_pad, 0)
    tile = tl.program_id(0)
    own = tl.sum(((last_tiles <= tile) & is_group).to(tl.int32), 0)
    if own >= groups:
        return
    before = tl.sum(tl.where(group == own - 1, last_tiles, 0), 0)
    begin = tl.load(rows + 2 + own) + (tile - before) * rows_pad
    end = tl.load(rows + 3 + own)
    slot = tl.load(rows + 3 + max_loras + own).to(tl.int64)

    part = tl.load(tiles + 2 * tl.program_id(1))
    first = tl.load(tiles + 2 * tl.program_id(1) + 1)
    entry = table + slot * words
    own_part = entry + 2 + 3 * part
    rank = tl.load(own_part + 1).to(tl.int32)
    if rank == 0:
        return
    a = tl.load(entry).to(tl.pointer_type(dtype))
    a += tl.load(own_part) * inputs
    b = tl.load(own_part + 2).to(tl.pointer_type(dtype))

    index = begin + tl.arange(0, rows_pad)
    is_row = index < end
    row = tl.load(rows + 3 + 2 * max_loras + index, mask=is_row, other=0).to(tl.int64)
    column = first + tl.arange(0, outputs_pad)
    width = tl.load(slices + 4 * part + 1)
    block = tl.load(slices + 4 * part + 2)
    stride = tl.load(slices + 4 * part + 3)
    place = tl.load(slices + 4 * part) + column // block * stride + column % block
    is_column = column < width
    at = output + row[:, None] * outputs + place[None, :]
    mask = is_row[:, None] & is_column[None, :]
    total = tl.load(at, mask=mask, other=0.0).to(tl.float32)

    ranks = tl.arange(0, ranks_pad)
    dims = tl.arange(0, step)
    for start in range(0, rank, ranks_pad):
        own_rank = start + ranks
        is_rank = own_rank < rank
        sums = tl.zeros([rows_pad, ranks_pad], tl.float32)
        for done in range(0, inputs, step):
            dim = done + dims
            is_dim = dim < inputs
            numbers = tl.load(
                values + row[:, None] * inputs + dim[None, :],
                mask=is_row[:, None] & is_dim[None, :],
                other=0.0,
            )
            factors = tl.load(
                a + own_rank[None, :].to(tl.int64) * inputs + dim[:, None],
                mask=is_rank[None, :] & is_dim[:, None],
                other=0.0,
            )
            sums = tl.dot(numbers, factors, sums, input_precision="ieee")
        others = tl.load(
            b + column[None, :].to(tl.int64) * rank + own_rank[:, None],
            mask=is_rank[:, None] & is_column[None, :],
            other=0.0,
        )
        total = tl.dot(sums.to(dtype), others, total, input_precision="ieee")
    tl.debug_barrier()  # all threads that hold the same numbers have read them
    tl.store(at, total.to(dtype), mask=mask)
