"""Products of few rows at the speed of memory, with the norm, gate and residual.

A program computes some outputs of all rows, without the matrix unit. It asks for its
first weights before the kernel in front of it has ended. Nothing is summed across
programs, so equal inputs give equal results.
"""

from typing import NamedTuple

import torch

from hookline_kernels.gpu.chaining import chained, follow, lead
from hookline_kernels.gpu.jit import kernel, power_of_two, tl

_WARPS = 4


class ThinPlan(NamedTuple):
    """How a thin product is computed.

    Attributes:
        tile: Outputs of a program (pairs of a gate and an up if it is gated); a power
            of two.
        step: Inputs that are loaded at a time; a power of two.
    """

    tile: int
    step: int


class RowNorm(NamedTuple):
    """The RMSNorm of the rows before a product; see `rms_norm`."""

    weight: torch.Tensor
    epsilon: float
    unit_offset: bool = False


def thin_product(
    values: torch.Tensor,
    weight: torch.Tensor,
    plan: ThinPlan,
    *,
    norm: RowNorm | None = None,
    gated: bool = False,
    bias: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns values · weightᵀ of few rows, rounding where `transformers` does.

    Args:
        values: [T, in], rows contiguous; each T is a kernel of its own.
        weight: [out, in] of the same dtype, contiguous.
        plan: Any plan gives the same up to rounding.
        norm: Normalises the rows first.
        gated: The weight's first half is a gate's, and SiLU of its outputs times those
            of the second half is the result, as in `silu_mul`.
        bias: [out]; added in float32.
        residual: [T, out], contiguous; becomes the result. Added in float32.

    Returns:
        [T, out], or [T, out / 2] if it is gated.
    """
    rows, width = values.shape
    outs = len(weight) // 2 if gated else len(weight)
    output = values.new_empty(rows, outs) if residual is None else residual
    _thin_kernel[(-(-outs // plan.tile),)](
        *(values, values.stride(0), weight, bias),
        *((None, 0.0) if norm is None else norm[:2]),
        *(output, outs),
        normed=norm is not None,
        unit_offset=norm is not None and norm.unit_offset,
        gated=gated,
        biased=bias is not None,
        adds=residual is not None,
        rows=rows,
        rows_pad=power_of_two(rows),
        width=width,
        width_pad=power_of_two(width),
        tile=plan.tile,
        step=min(plan.step, power_of_two(width)),
        num_warps=_WARPS,
        **chained(values.device),
    )
    return output


@kernel
def _scales(  # noqa: PLR0917 - a kernel takes no keywords
    values: tl.tensor,
    values_row: tl.tensor,
    epsilon: tl.tensor,
    normed: tl.constexpr,
    rows: tl.constexpr,
    rows_pad: tl.constexpr,
    width: tl.constexpr,
    width_pad: tl.constexpr,
) -> tl.tensor:
    """Returns 1 / the root mean square of each row, [padded rows], if `normed`."""
    row = tl.arange(0, rows_pad)
    scales = tl.zeros([rows_pad], tl.float32)
    if normed:
        dims = tl.arange(0, width_pad)
        mask = (row < rows)[:, None] & (dims < width)[None, :]
        at = values + row[:, None] * values_row + dims[None, :]
        wide = tl.load(at, mask=mask, other=0.0).to(tl.float32)
        scales = tl.rsqrt(tl.sum(wide * wide, 1) / width + epsilon)
    return scales


@kernel
def _normed(
    values: tl.tensor, scales: tl.tensor, factors: tl.tensor, unit_offset: tl.constexpr
) -> tl.tensor:
    """Returns values · scales · factors, rounded as `rms_norm` does."""
    dtype: tl.constexpr = values.dtype
    scaled = values.to(tl.float32) * scales
    factors = factors.to(tl.float32)
    if unit_offset:
        return (scaled * (1.0 + factors)).to(dtype)
    return (scaled.to(dtype).to(tl.float32) * factors).to(dtype)


@kernel
def _silu_times(gates: tl.tensor, ups: tl.tensor, dtype: tl.constexpr) -> tl.tensor:
    """Returns SiLU(gates) · ups of float32 sums, rounded as `silu_mul` does."""
    gates = gates.to(dtype).to(tl.float32)
    ups = ups.to(dtype).to(tl.float32)
    power = tl.exp(-tl.abs(gates))
    sigmoid = tl.where(gates >= 0, 1.0, power) / (1.0 + power)
    return (gates * sigmoid).to(dtype).to(tl.float32) * ups


@kernel
def _old(  # noqa: PLR0917 - a kernel takes no keywords
    output: tl.tensor,
    outs: tl.tensor,
    adds: tl.constexpr,
    rows: tl.constexpr,
    rows_pad: tl.constexpr,
    tile: tl.constexpr,
) -> tl.tensor:
    """Returns the residual of a program's outputs, [padded rows, tile] float32."""
    found = tl.zeros([rows_pad, tile], tl.float32)
    if adds:
        column = tl.program_id(0) * tile + tl.arange(0, tile)
        row = tl.arange(0, rows_pad)
        mask = (row < rows)[:, None] & (column < outs)[None, :]
        at = output + row[:, None] * outs + column[None, :]
        found = tl.load(at, mask=mask, other=0.0).to(tl.float32)
    return found


@kernel
def _finish(  # noqa: PLR0917 - a kernel takes no keywords
    sums: tl.tensor,
    more: tl.tensor,
    old: tl.tensor,
    bias: tl.tensor,
    output: tl.tensor,
    outs: tl.tensor,
    gated: tl.constexpr,
    biased: tl.constexpr,
    adds: tl.constexpr,
    rows: tl.constexpr,
    rows_pad: tl.constexpr,
    tile: tl.constexpr,
) -> None:
    """Adds bias and residual to [padded rows, tile] sums, gates them, stores them."""
    dtype: tl.constexpr = output.dtype.element_ty
    column = tl.program_id(0) * tile + tl.arange(0, tile)
    is_column = column < outs
    row = tl.arange(0, rows_pad)
    if biased:
        sums += tl.load(bias + column, mask=is_column, other=0.0)[None, :]
        if gated:
            more += tl.load(bias + outs + column, mask=is_column, other=0.0)[None, :]
    if gated:
        sums = _silu_times(sums, more, dtype)
    if adds:
        sums += old
        tl.debug_barrier()  # all threads that hold the same numbers have read them
    at = output + row[:, None] * outs + column[None, :]
    mask = (row < rows)[:, None] & is_column[None, :]
    tl.store(at, sums.to(dtype), mask=mask)


@kernel
def _thin_kernel(  # noqa: PLR0917 - a kernel takes no keywords
    values: tl.tensor,
    values_row: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    norm: tl.tensor,
    epsilon: tl.tensor,
    output: tl.tensor,
    outs: tl.tensor,
    normed: tl.constexpr,
    unit_offset: tl.constexpr,
    gated: tl.constexpr,
    biased: tl.constexpr,
    adds: tl.constexpr,
    rows: tl.constexpr,
    rows_pad: tl.constexpr,
    width: tl.constexpr,
    width_pad: tl.constexpr,
    tile: tl.constexpr,
    step: tl.constexpr,
    chains: tl.constexpr = False,
) -> None:
    """Computes some outputs; their weights go from memory to registers."""
    lead(chains)
    column = tl.program_id(0).to(tl.int64) * tile + tl.arange(0, tile)
    is_column = (column < outs)[None, :, None]
    dims = tl.arange(0, step)[None, None, :]
    at = weight + column[None, :, None] * width + dims
    beyond = outs.to(tl.int64) * width
    mask = is_column & (dims < width)
    first = tl.load(at, mask=mask, other=0.0)
    second = first
    if gated:
        second = tl.load(at + beyond, mask=mask, other=0.0)
    factors = first
    if normed:
        factors = tl.load(norm + dims, mask=dims < width, other=0.0)
    follow(chains)
    old = _old(output, outs, adds, rows, rows_pad, tile)
    scales = _scales(
        values, values_row, epsilon, normed, rows, rows_pad, width, width_pad
    )
    row = tl.arange(0, rows_pad)[:, None, None]
    sums = tl.zeros([rows_pad, tile, step], tl.float32)
    more = sums
    for start in tl.static_range(0, width, step):
        here = start + dims
        numbers = tl.load(
            values + row * values_row + here,
            mask=(row < rows) & (here < width),
            other=0.0,
        )
        next_first, next_second, next_factors = first, second, factors
        if start + step < width:
            coming = here + step
            mask = is_column & (coming < width)
            next_first = tl.load(at + start + step, mask=mask, other=0.0)
            if gated:
                beyond_step = at + beyond + start + step
                next_second = tl.load(beyond_step, mask=mask, other=0.0)
            if normed:
                next_factors = tl.load(norm + coming, mask=coming < width, other=0.0)
        if normed:
            numbers = _normed(numbers, scales[:, None, None], factors, unit_offset)
        wide = numbers.to(tl.float32)
        sums += first.to(tl.float32) * wide
        if gated:
            more += second.to(tl.float32) * wide
        first, second, factors = next_first, next_second, next_factors
    total = tl.sum(sums, 2)
    other = total
    if gated:
        other = tl.sum(more, 2)
    _finish(
        total, other, old, bias, output, outs, gated, biased, adds, rows, rows_pad, tile
    )
