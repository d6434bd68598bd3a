"""The parts of a decoder for GPUs: Triton's kernels, and torch's products."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from hookline.models.adapt.gated import gated_by
from hookline.models.adapt.norms import FastNorm, NormKernel, fast_norm
from hookline.models.decoder.rotary_table import WholeAngles
from hookline_kernels.gpu.gated import silu_mul
from hookline_kernels.gpu.norm import rms_norm
from hookline_kernels.gpu.rotary_cache import RotaryCache
from hookline_kernels.head_shape import HeadNorms, HeadShape
from hookline_kernels.layers import gated_reference


class GpuKit:
    """Nothing here waits for the device, so that its steps can be captured."""

    def norm(self, module: nn.Module) -> FastNorm | None:
        return fast_norm(module, _norm)

    def product(self, linears: Sequence[nn.Linear]) -> "GpuProduct":
        return GpuProduct(linears)

    def gated(self, module: nn.Module) -> "GpuGated | None":
        return gated_by(GpuGated, module)

    def heads_cache(self, shape: HeadShape, norms: HeadNorms | None) -> RotaryCache:
        return RotaryCache(shape, norms)

    def angles(
        self, rotary: nn.Module, like: torch.Tensor, head_dim: int, limit: int
    ) -> WholeAngles:
        return WholeAngles(rotary, like, head_dim, limit)

    def layers_again(self, _layers: object, _embedding: object) -> None:
        """Graphs do that, which the runner captures."""


class GpuProduct:
    """Linear layers side by side; a summand is added inside of the product."""

    def __init__(self, linears: Sequence[nn.Linear]) -> None:
        """Takes the weights of layers of one input width.

        Several are joined, and the layers' own become parts of what was joined: the
        device holds each number once.
        """
        self._weight = _joined([each.weight for each in linears])
        biases = [each.bias for each in linears if each.bias is not None]
        self._bias = _joined(biases) if biases else None

    def __call__(
        self, values: torch.Tensor, summand: torch.Tensor | None = None
    ) -> torch.Tensor:
        """[T, out]; the summand, if there is one, becomes it."""
        if summand is None:
            return functional.linear(values, self._weight, self._bias)
        summand.addmm_(values, self._weight.t())
        return summand if self._bias is None else summand.add_(self._bias)


class GpuGated:
    """down(activation(gate(x)) · up(x)), and perhaps a summand."""

    def __init__(
        self, gate: nn.Linear, up: nn.Linear, down: nn.Linear, activation: str
    ) -> None:
        self._gate_up, self._down = GpuProduct([gate, up]), GpuProduct([down])
        silu = activation == "silu"
        self._gate = (
            silu_mul if silu else partial(gated_reference, activation=activation)
        )

    def __call__(
        self, values: torch.Tensor, summand: torch.Tensor | None = None
    ) -> torch.Tensor:
        flat = self._gate(self._gate_up(values.flatten(0, -2)))
        return self._down(flat, summand).view(*values.shape[:-1], -1)


def _norm(weight: torch.Tensor, epsilon: float, *, unit_offset: bool) -> NormKernel:
    return partial(rms_norm, weight=weight, epsilon=epsilon, unit_offset=unit_offset)


def _joined(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """All of them one after another, of which each becomes its part."""
    if len(parts) == 1:
        return parts[0].data
    whole = torch.cat([part.data for part in parts])
    for part, rows in zip(
        parts, whole.split([len(each) for each in parts]), strict=True
    ):
        part.data = rows
    return whole
