"""A decoder's parts with what adapters in slots add to them."""

from collections.abc import Sequence

import torch

from hookline.engine.decoder import Decoder
from hookline.engine.decoder.forward_batch import ForwardBatch
from hookline.engine.decoder.layer import DecoderLayer
from hookline_kernels.metadata import Layer
from hookline_kernels.modules.reduction import ReducedProduct
from hookline_kernels.modules.splitting import SplittableProduct
from hookline_lora.kernels.splitting import split
from hookline_lora.worker.feed import StepAdapters
from hookline_lora.worker.layer import AdaptedLayer, LayerSites
from hookline_lora.worker.own_layers import HEAD
from hookline_lora.worker.sites import AdapterSites


class AdaptedDecoder:
    """Computes those parts of a decoder's steps that adapters change.

    Implements `AdaptedParts`.
    """

    def __init__(self, decoder: Decoder, sites: AdapterSites) -> None:
        """Adds a site for each product that adapters may change.

        Raises:
            KernelError: No kernel supports the dtype or the device.
        """
        self._decoder, self._sites = decoder, sites
        self.layers: Sequence[Layer] = [
            AdaptedLayer(layer, _layer_sites(f"model.layers.{index}", layer, sites))
            for index, layer in enumerate(decoder.layers, decoder.first_layer)
        ]
        self._head = sites.add(HEAD)

    def embed(self, hidden: torch.Tensor, batch: ForwardBatch) -> torch.Tensor:
        """Implements `AdaptedParts`."""
        rows = _adapters(batch).rows
        self._sites.embeddings.add(hidden, batch.token_ids, rows)
        return hidden

    def logits(self, states: torch.Tensor, batch: ForwardBatch) -> torch.Tensor:
        """Implements `AdaptedParts`."""
        logits, rows = self._decoder.logits_of(states), _adapters(batch).sampled
        if rows is not None and self._head is not None:
            self._head.add(logits, states, rows)
            self._sites.heads.replace(logits, states, rows)
        return logits


def _layer_sites(name: str, layer: DecoderLayer, sites: AdapterSites) -> LayerSites:
    """Adds the sites of a layer with this name."""
    product = layer.feed_forward.product
    if isinstance(product, ReducedProduct):
        product = product.product
    gated = gate_up = down = None
    if isinstance(product, SplittableProduct):
        gated = split(product)
        mlp = f"{name}.mlp"
        names = (f"{mlp}.gate_proj", f"{mlp}.up_proj")
        gate_up = sites.add(*names, slices=gated.slices)
        down = sites.add(f"{mlp}.down_proj")
    attention = f"{name}.self_attn"
    return LayerSites(
        heads=sites.add(*(f"{attention}.{each}_proj" for each in "qkv")),
        output=sites.add(f"{attention}.o_proj"),
        gate_up=gate_up,
        down=down,
        gated=None if gate_up is None and down is None else gated,
    )


def _adapters(batch: ForwardBatch) -> StepAdapters:
    assert isinstance(batch.adapters, StepAdapters), "steps with adapters only"
    return batch.adapters
