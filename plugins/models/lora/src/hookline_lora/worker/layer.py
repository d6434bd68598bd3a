"""A decoder layer with what adapters add to its products."""

from dataclasses import dataclass

import torch

from hookline.engine.decoder.layer import DecoderLayer
from hookline_kernels.metadata import CosSin, LayerMetadata
from hookline_kernels.modules.pre_norm import Product
from hookline_kernels.modules.reduction import Reduce, ReducedProduct
from hookline_lora.kernels.site import AdaptedSite
from hookline_lora.kernels.splitting import SplitMlp
from hookline_lora.worker.feed import StepAdapters


@dataclass(frozen=True, slots=True)
class LayerSites:
    """What adapters add to the products of a layer; None where they may add nothing.

    Attributes:
        heads: To queries, keys and values.
        output: To attention's output product.
        gate_up: To gates and ups of a gated MLP.
        down: To its last product.
        gated: The MLP in parts; None if it has none.
    """

    heads: AdaptedSite | None
    output: AdaptedSite | None
    gate_up: AdaptedSite | None = None
    down: AdaptedSite | None = None
    gated: SplitMlp | None = None


class AdaptedLayer:
    """Computes what `DecoderLayer` does, with adapters, whose rows the batch knows.

    What adapters add to a rank's part of a product is a part itself: it is added before
    the sum over ranks.
    """

    def __init__(self, layer: DecoderLayer, sites: LayerSites) -> None:
        """Shares the products of a layer, which is bound to the cache for both."""
        self._layer, self._sites = layer, sites
        self._norm, self._heads = layer.heads.norm, layer.heads.product
        self._output = _Adapted(layer.output, sites.output)
        self._feed_forward_norm = layer.feed_forward.norm
        if sites.gated is None:
            return
        down = _in_place_of(layer.feed_forward.product, sites.gated.down)
        self._down = _Adapted(down, sites.down)

    def __call__(
        self, hidden: torch.Tensor, batch: LayerMetadata, rotary: CosSin
    ) -> torch.Tensor:
        """[T, hidden] → [T, hidden]; may overwrite its input."""
        adapters, sites = batch.adapters, self._sites
        assert isinstance(adapters, StepAdapters), "steps with adapters only"
        values = self._norm(hidden)
        heads = self._heads(values)
        if sites.heads is not None:
            sites.heads.add(heads, values, adapters.rows)
        attended = self._layer.attend(heads, batch, rotary)
        hidden = self._output(attended, hidden, adapters)
        if sites.gated is None:
            return self._layer.feed_forward(hidden, hidden)
        values = self._feed_forward_norm(hidden)
        gate_up = sites.gated.gate_up(values)
        if sites.gate_up is not None:
            sites.gate_up.add(gate_up, values, adapters.rows)
        return self._down(sites.gated.gate(gate_up), hidden, adapters)


class _Adapted:
    """A product with a residual, what adapters add to it, and its sum over ranks."""

    def __init__(self, product: Product, site: AdaptedSite | None) -> None:
        self._product, self._site = product, site
        self._reduce: Reduce | None = None
        if isinstance(product, ReducedProduct):
            self._product, self._reduce = product.product, product.reduce

    def __call__(
        self, values: torch.Tensor, residual: torch.Tensor, adapters: StepAdapters
    ) -> torch.Tensor:
        reduce = self._reduce
        own = residual if reduce is None or reduce.adds_residual else None
        found = self._product(values, own)
        if self._site is not None:
            self._site.add(found, values, adapters.rows)
        return found if reduce is None else reduce(found)


def _in_place_of(product: Product, inner: Product) -> Product:
    """Returns a part of a product, with the sum over ranks of the whole."""
    if isinstance(product, ReducedProduct):
        return ReducedProduct(inner, product.reduce)
    return inner
