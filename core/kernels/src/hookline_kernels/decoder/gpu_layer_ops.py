"""A decoder's operations on GPUs: Triton's kernels and torch's products."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from hookline_kernels.decoder.rotary_table import FullRotaryTable
from hookline_kernels.gpu.gated import silu_mul
from hookline_kernels.gpu.norm import rms_norm
from hookline_kernels.gpu.rotary_cache import RotaryCache
from hookline_kernels.head_shape import HeadNorms, HeadShape
from hookline_kernels.layers import gated_reference
from hookline_kernels.modules.gated import gated_by
from hookline_kernels.modules.norms import FastNorm, NormKernel, fast_norm
from hookline_kernels.modules.reduction import Reduce


class GpuLayerOps:
    """The operations; nothing waits for the device, so graphs can capture it."""

    def __init__(self, reduce: Reduce | None = None) -> None:
        """Creates the operations; with `reduce`, of one rank's part of the weights."""
        self.reduce = reduce

    def norm(self, module: nn.Module) -> FastNorm | None:
        return fast_norm(module, _norm)

    def product(self, linears: Sequence[nn.Linear]) -> "GpuProduct":
        return GpuProduct(linears)

    def gated_mlp(self, module: nn.Module) -> "GpuGated | None":
        return gated_by(GpuGated, module)

    def heads_cache(self, shape: HeadShape, norms: HeadNorms | None) -> RotaryCache:
        return RotaryCache(shape, norms)

    def rotary_table(
        self, rotary: nn.Module, like: torch.Tensor, head_dim: int, limit: int
    ) -> FullRotaryTable:
        return FullRotaryTable(rotary, like, head_dim, limit)

    def step_replay(self, _layers: object, _like: object) -> None:
        """Returns None: the runner captures CUDA graphs instead."""


class GpuProduct:
    """Linear layers side by side; the residual is added inside of the product."""

    of_blocks = None

    def __init__(self, linears: Sequence[nn.Linear]) -> None:
        """Joins the weights of layers of one input width.

        The layers' weights become views of the joined one, so that the device holds
        each number once.
        """
        self._weight = _joined([each.weight for each in linears])
        biases = [each.bias for each in linears if each.bias is not None]
        self._bias = _joined(biases) if biases else None

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Returns [T, out]; adds to the residual in place, if there is one."""
        if residual is None:
            return functional.linear(values, self._weight, self._bias)
        residual.addmm_(values, self._weight.t())
        return residual if self._bias is None else residual.add_(self._bias)


class GpuGated:
    """down(activation(gate(x)) · up(x)) + residual."""

    of_blocks = None

    def __init__(
        self, gate: nn.Linear, up: nn.Linear, down: nn.Linear, activation: str
    ) -> None:
        self._gate_up, self._down = GpuProduct([gate, up]), GpuProduct([down])
        silu = activation == "silu"
        self._gate = (
            silu_mul if silu else partial(gated_reference, activation=activation)
        )

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        flat = self._gate(self._gate_up(values.flatten(0, -2)))
        return self._down(flat, residual).view(*values.shape[:-1], -1)


def _norm(weight: torch.Tensor, epsilon: float, *, unit_offset: bool) -> NormKernel:
    return NormKernel(
        partial(rms_norm, weight=weight, epsilon=epsilon, unit_offset=unit_offset)
    )


def _joined(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Concatenates tensors, each of which becomes a view of the result."""
    if len(parts) == 1:
        return parts[0].data
    whole = torch.cat([part.data for part in parts])
    for part, rows in zip(
        parts, whole.split([len(each) for each in parts]), strict=True
    ):
        part.data = rows
    return whole
