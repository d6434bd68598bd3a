"""RMSNorm (Zhang and Sennrich 2019), with or without adding a residual first."""

import torch

from hookline_kernels.gpu.chaining import chained, follow, lead
from hookline_kernels.gpu.jit import kernel, power_of_two, tl
from hookline_kernels.gpu.launching import launch

_TILE = 4096
"""Least numbers per program, where rows are short."""


def rms_norm(
    values: torch.Tensor,
    weight: torch.Tensor,
    epsilon: float,
    *,
    unit_offset: bool = False,
) -> torch.Tensor:
    """Divides each row by its root mean square, and scales it by the weight.

    Args:
        values: [..., width]; two dimensions before the last may have any strides.
        weight: [width] of the same dtype.
        epsilon: Added to the mean square.
        unit_offset: Scale by 1 + `weight` before rounding to the dtype, instead of by
            `weight` after it.

    Returns:
        The same shape and dtype, contiguous.

    Raises:
        ValueError: The dtypes or the widths differ.
    """
    _check(values, weight)
    output = torch.empty(values.shape, dtype=values.dtype, device=values.device)
    if values.ndim not in {2, 3} or values.stride(-1) != 1:
        values = values.reshape(-1, values.shape[-1]).contiguous()
    inner = values.shape[1] if values.ndim == 3 else 1
    _launch(
        values,
        None,
        weight,
        output,
        strides=(values.stride(0), values.stride(1) if values.ndim == 3 else 0),
        inner=inner,
        epsilon=epsilon,
        unit_offset=unit_offset,
    )
    return output


def add_rms_norm(
    values: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    epsilon: float,
    *,
    unit_offset: bool = False,
) -> torch.Tensor:
    """Adds to the residual in place, and norms the rounded sum.

    Args:
        values: [T, width], contiguous.
        residual: [T, width] of the same dtype, contiguous; becomes the sum.
        weight: [width] of the same dtype.
        epsilon: See `rms_norm`.
        unit_offset: See `rms_norm`.

    Returns:
        [T, width], the normed sum.

    Raises:
        ValueError: Dtypes or widths differ, or a tensor is not contiguous.
    """
    _check(values, weight)
    _check(residual, weight)
    if not (values.is_contiguous() and residual.is_contiguous()):
        raise ValueError("values and residual must be contiguous")
    output = torch.empty_like(values)
    _launch(
        values,
        residual,
        weight,
        output,
        strides=(values.shape[-1], 0),
        inner=1,
        epsilon=epsilon,
        unit_offset=unit_offset,
    )
    return output


def _check(values: torch.Tensor, weight: torch.Tensor) -> None:
    if values.dtype != weight.dtype or values.shape[-1:] != weight.shape:
        raise ValueError(
            f"a weight of {tuple(weight.shape)} {weight.dtype} does not fit "
            f"{tuple(values.shape)} {values.dtype}"
        )


def _launch(
    values: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor,
    output: torch.Tensor,
    *,
    strides: tuple[int, int],
    inner: int,
    epsilon: float,
    unit_offset: bool,
) -> None:
    (width,) = weight.shape
    rows = output.numel() // width
    if not rows:
        return
    width_pad = power_of_two(width)
    tile_rows = min(power_of_two(rows), max(1, _TILE // width_pad))
    launch(
        _norm_kernel,
        (-(-rows // tile_rows),),
        *(values, *strides, residual, weight, output, rows, epsilon),
        inner=inner,
        adds=residual is not None,
        unit_offset=unit_offset,
        width=width,
        width_pad=width_pad,
        tile_rows=tile_rows,
        num_warps=min(16, max(4, width_pad // 1024)),
        **chained(values.device),
    )


@kernel
def _norm_kernel(  # noqa: PLR0917 - a kernel takes no keywords
    values: tl.tensor,
    outer_stride: tl.tensor,
    inner_stride: tl.tensor,
    residual: tl.tensor,
    weight: tl.tensor,
    output: tl.tensor,
    rows: tl.tensor,
    epsilon: tl.tensor,
    inner: tl.constexpr,
    adds: tl.constexpr,
    unit_offset: tl.constexpr,
    width: tl.constexpr,
    width_pad: tl.constexpr,
    tile_rows: tl.constexpr,
    chains: tl.constexpr = False,
) -> None:
    """Norms some whole rows."""
    lead(chains)
    follow(chains)
    dtype: tl.constexpr = output.dtype.element_ty
    row = tl.program_id(0).to(tl.int64) * tile_rows + tl.arange(0, tile_rows)
    dims = tl.arange(0, width_pad)
    is_dim = dims < width
    mask = (row < rows)[:, None] & is_dim[None, :]
    at = row // inner * outer_stride + row % inner * inner_stride
    wide = tl.load(values + at[:, None] + dims[None, :], mask=mask, other=0.0)
    wide = wide.to(tl.float32)
    at = row[:, None] * width + dims[None, :]
    if adds:
        wide += tl.load(residual + at, mask=mask, other=0.0).to(tl.float32)
        rounded = wide.to(dtype)
        tl.debug_barrier()  # all threads that hold the same numbers have read them
        tl.store(residual + at, rounded, mask=mask)
        wide = rounded.to(tl.float32)
    mean = tl.sum(wide * wide, 1) / width
    normed = wide * tl.rsqrt(mean + epsilon)[:, None]
    factors = tl.load(weight + dims, mask=is_dim, other=0.0).to(tl.float32)[None, :]
    if unit_offset:
        normed = normed * (1.0 + factors)
    else:
        normed = normed.to(dtype).to(tl.float32) * factors
    tl.store(output + at, normed.to(dtype), mask=mask)
