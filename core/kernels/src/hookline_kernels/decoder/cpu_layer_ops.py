"""A decoder's operations on CPUs: compiled kernels and packed weights."""

from collections.abc import Sequence

import torch
from torch import nn

from hookline_kernels.cpu.rotary_cache import RotaryCache
from hookline_kernels.decoder.rotary_table import GrowingRotaryTable
from hookline_kernels.decoder.step_replay import RecordedSteps
from hookline_kernels.head_shape import HeadNorms, HeadShape
from hookline_kernels.metadata import Layer
from hookline_kernels.modules.gated import fast_gated
from hookline_kernels.modules.linears import FastLinear, joined
from hookline_kernels.modules.norms import FastNorm, fast_norm
from hookline_kernels.modules.pre_norm import Product
from hookline_kernels.modules.quantized_layer import are_quantized, gated_product
from hookline_kernels.modules.reduction import Reduce


class CpuLayerOps:
    """The operations by compiled kernels."""

    def __init__(self, reduce: Reduce | None = None) -> None:
        """Creates the operations; with `reduce`, of one rank's part of the weights."""
        self.reduce = reduce

    def norm(self, module: nn.Module) -> FastNorm | None:
        return fast_norm(module)

    def product(self, linears: Sequence[nn.Linear]) -> Product:
        if are_quantized(linears):
            return linears[0].joined_with(linears)
        if len(linears) > 1:
            return joined(linears)
        return FastLinear(linears[0].weight, linears[0].bias)

    def gated_mlp(self, module: nn.Module) -> Product | None:
        return gated_product(module) or fast_gated(module)

    def heads_cache(self, shape: HeadShape, norms: HeadNorms | None) -> RotaryCache:
        return RotaryCache(shape, norms)

    def rotary_table(
        self, rotary: nn.Module, like: torch.Tensor, head_dim: int, limit: int
    ) -> GrowingRotaryTable:
        return GrowingRotaryTable(rotary, like.dtype, head_dim, limit)

    def step_replay(
        self, layers: Sequence[Layer], like: torch.Tensor
    ) -> RecordedSteps | None:
        if self.reduce is not None and not self.reduce.is_recordable:
            return None
        return RecordedSteps(layers, like.shape[1], like.dtype)
