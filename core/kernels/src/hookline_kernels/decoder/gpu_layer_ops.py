"""A decoder's operations on GPUs: Triton's kernels and torch's products."""

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from hookline_kernels.decoder.rotary_table import FullRotaryTable
from hookline_kernels.gpu.gated import silu_mul
from hookline_kernels.gpu.norm import rms_norm
from hookline_kernels.gpu.rotary_cache import RotaryCache
from hookline_kernels.gpu.thin import RowNorm, thin_product
from hookline_kernels.gpu.thin_plans import plans_of
from hookline_kernels.head_shape import HeadNorms, HeadShape
from hookline_kernels.layers import gated_reference
from hookline_kernels.modules.gated import gated_by
from hookline_kernels.modules.norms import FastNorm, NormKernel, fast_norm
from hookline_kernels.modules.reduction import Reduce
from hookline_kernels.modules.splitting import SplitGated


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
    """Linear layers side by side; norm, gate and residual are inside where it pays.

    Attributes:
        gate: Computes the activation of the layers' results; None without one.
    """

    of_blocks = None

    def __init__(
        self, linears: Sequence[nn.Linear], activation: str | None = None
    ) -> None:
        """Joins the weights of layers of one input width.

        The layers' weights become views of the joined one, so that the device holds
        each number once. With an activation, the layers are a gate and an up, and the
        result is activation(gate) · up.
        """
        self._weight = _joined([each.weight for each in linears])
        biases = [each.bias for each in linears if each.bias is not None]
        self._bias = _joined(biases) if biases else None
        self.gate = None if activation is None else _gate(activation)
        is_thin = activation in {None, "silu"}
        gated = activation is not None
        self._plans = plans_of(self._weight, gated=gated) if is_thin else {}

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Returns [T, out]; adds to the residual in place, if there is one."""
        if len(values) in self._plans:
            return self._thin(values, None, residual)
        if residual is None:
            found = functional.linear(values, self._weight, self._bias)
            return found if self.gate is None else self.gate(found)
        residual.addmm_(values, self._weight.t())
        return residual if self._bias is None else residual.add_(self._bias)

    def of_normed(
        self,
        values: torch.Tensor,
        norm: FastNorm,
        residual: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Implements `NormingProduct`."""
        if len(values) not in self._plans:
            return self(norm(values), residual)
        inside = RowNorm(norm.weight, norm.epsilon, norm.unit_offset)
        return self._thin(values, inside, residual)

    def without_gate(self) -> "GpuProduct":
        """Returns the product with the same weight, without the activation."""
        found = copy(self)
        found.gate = None
        found._plans = plans_of(self._weight, gated=False)  # noqa: SLF001 - its own
        return found

    def _thin(
        self, values: torch.Tensor, norm: RowNorm | None, residual: torch.Tensor | None
    ) -> torch.Tensor:
        return thin_product(
            values,
            self._weight,
            self._plans[len(values)],
            norm=norm,
            gated=self.gate is not None,
            bias=self._bias,
            residual=residual,
        )


class GpuGated:
    """down(activation(gate(x)) · up(x)) + residual."""

    of_blocks = None

    def __init__(
        self, gate: nn.Linear, up: nn.Linear, down: nn.Linear, activation: str
    ) -> None:
        self._width = gate.out_features
        self._gate_up = GpuProduct([gate, up], activation)
        self._down = GpuProduct([down])

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor:
        found = self._down(self._gate_up(values.flatten(0, -2)), residual)
        return found.view(*values.shape[:-1], -1)

    def of_normed(
        self,
        values: torch.Tensor,
        norm: FastNorm,
        residual: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Implements `NormingProduct`, for [T, width]."""
        return self._down(self._gate_up.of_normed(values, norm), residual)

    def split(self) -> SplitGated:
        """Implements `SplittableProduct`."""
        gate = self._gate_up.gate
        assert gate is not None
        return SplitGated(self._gate_up.without_gate(), gate, self._down, self._width)


def _gate(activation: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns what computes activation(gate) · up of [T, both]."""
    if activation == "silu":
        return silu_mul
    return partial(gated_reference, activation=activation)


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
