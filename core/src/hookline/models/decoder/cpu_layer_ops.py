"""The parts of a decoder for processors."""

from collections.abc import Sequence

import torch
from torch import nn

from hookline.models.adapt.gated import FastGated, TiledGated, fast_gated
from hookline.models.adapt.linears import FastLinear, joined
from hookline.models.adapt.norms import FastNorm, fast_norm
from hookline.models.decoder.layer import DecoderLayer
from hookline.models.decoder.rotary_table import Angles
from hookline.models.decoder.step_replay import LayersAgain
from hookline_kernels.cpu.rotary_cache import RotaryCache
from hookline_kernels.head_shape import HeadNorms, HeadShape


class CpuKit:
    """Compiled kernels, and products with packed weights where that pays."""

    def norm(self, module: nn.Module) -> FastNorm | None:
        return fast_norm(module)

    def product(self, linears: Sequence[nn.Linear]) -> FastLinear:
        if len(linears) > 1:
            return joined(linears)
        return FastLinear(linears[0].weight, linears[0].bias)

    def gated(self, module: nn.Module) -> FastGated | TiledGated | None:
        return fast_gated(module)

    def heads_cache(self, shape: HeadShape, norms: HeadNorms | None) -> RotaryCache:
        return RotaryCache(shape, norms)

    def angles(
        self, rotary: nn.Module, like: torch.Tensor, head_dim: int, limit: int
    ) -> Angles:
        return Angles(rotary, like.dtype, head_dim, limit)

    def layers_again(
        self, layers: Sequence[DecoderLayer], embedding: torch.Tensor
    ) -> LayersAgain:
        return LayersAgain(layers, embedding.shape[1], embedding.dtype)
