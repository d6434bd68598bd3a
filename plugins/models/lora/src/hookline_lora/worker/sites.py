"""The products of a decoder that adapters change, and the adapters in their slots."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from hookline_lora.files.weights import AdapterWeights, LowRank
from hookline_lora.kernels.parts import PackedParts
from hookline_lora.kernels.site import AdaptedSite
from hookline_lora.kernels.slices import Slice
from hookline_lora.pacing import Rest, no_rest
from hookline_lora.worker.own_layers import EMBEDDING, HEAD, ModelLayers, Shape
from hookline_lora.worker.tables import EmbeddingPart, EmbeddingSlots, HeadSlots


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedAdapter:
    """An adapter in main memory, as kernels read it.

    Attributes:
        parts: By site; None for those that it leaves alone.
        embedding: Its part of the embedding; or None.
        head: Its output layer in place of the model's; or None.
        changes_logits: It has an output layer, or changes the model's.
    """

    parts: Sequence[PackedParts | None]
    embedding: EmbeddingPart | None = None
    head: torch.Tensor | None = None
    changes_logits: bool = False

    @property
    def num_bytes(self) -> int:
        """Bytes of memory."""
        held = sum(each.num_bytes for each in self.parts if each is not None)
        if self.embedding is not None:
            held += self.embedding.num_bytes
        return held if self.head is None else held + self.head.nbytes


@dataclass(frozen=True, slots=True)
class _Site:
    """A product of one layer, or of several joined ones in the order of the slices."""

    adapted: AdaptedSite
    names: tuple[str, ...]

    def pack(self, products: Mapping[str, LowRank]) -> PackedParts | None:
        """Returns an adapter's part of the product; None if it has none."""
        own = [products.get(name) for name in self.names]
        if all(each is None for each in own):
            return None
        parts = [None if each is None else (each.down, each.up) for each in own]
        return self.adapted.packed(parts)


class AdapterSites:
    """All sites of a rank's part of a model, and what their slots have.

    It holds none of the model's weights. For one thread, but `pack`.

    Attributes:
        embeddings: What slots add to the embedding.
        heads: Output layers that slots have.
    """

    def __init__(
        self,
        layers: ModelLayers,
        targets: Iterable[str] | None,
        dtype: torch.dtype,
        max_loras: int,
        device: torch.device,
    ) -> None:
        """Has no sites yet.

        Args:
            layers: The model's layers.
            targets: Last parts of the names of those that adapters may change; None is
                all.
            dtype: Data type of the model.
            max_loras: Number of slots.
            device: The model's device.
        """
        self._layers, self._dtype = layers, dtype
        self._names = None if targets is None else frozenset(targets)
        self._max_loras, self._device = max_loras, device
        self._sites: list[_Site] = []
        self._in_head: set[int] = set()
        self.embeddings, self.heads = EmbeddingSlots(device), HeadSlots(device)

    def add(self, *names: str, slices: tuple[Slice, ...] = ()) -> AdaptedSite | None:
        """Makes the site of a product; None if adapters may not change it.

        Args:
            names: Its layers, which have the same inputs.
            slices: Where their outputs lie; side by side by default.

        Raises:
            KernelError: No kernel supports the dtype or the device.
        """
        if not any(self._allows(name) for name in names):
            return None
        shapes = [self._layers.own_shape(name) for name in names]
        adapted = AdaptedSite(
            shapes[0][0],
            slices or tuple(_side_by_side(outputs for _, outputs in shapes)),
            self._dtype,
            self._max_loras,
            self._device,
        )
        self._sites.append(_Site(adapted, names))
        return adapted

    def _allows(self, name: str) -> bool:
        """Whether adapters may change a layer, which this rank has."""
        if name not in self._layers.cuts:
            return False
        return self._names is None or name.rpartition(".")[2] in self._names

    @property
    def targets(self) -> dict[str, Shape]:
        """The whole model's shapes of this rank's layers that adapters may change."""
        names = [EMBEDDING, *(name for site in self._sites for name in site.names)]
        whole = self._layers.whole
        return {name: whole[name] for name in names if self._allows(name)}

    @property
    def readable(self) -> dict[str, Shape]:
        """Those of all ranks, of whose layers the others have told."""
        own, layers = self.targets, self._layers
        others = {
            name: shape
            for name, shape in layers.whole.items()
            if name not in layers.cuts
        }
        return own | others

    def pack(self, weights: AdapterWeights, rest: Rest = no_rest) -> PackedAdapter:
        """Returns an adapter as the sites read it. Any thread may.

        Args:
            weights: This rank's part, in the dtype of the model.
            rest: Called after each site.
        """
        embedding, products = None, weights.products
        parts = []
        for site in self._sites:
            parts.append(site.pack(products))
            rest()
        if EMBEDDING in products:
            down, up = products[EMBEDDING].down, products[EMBEDDING].up
            embedding = EmbeddingPart(down.t().contiguous(), up.t().contiguous())
        return PackedAdapter(
            parts=parts,
            embedding=embedding,
            head=weights.whole.get(HEAD),
            changes_logits=HEAD in products or HEAD in weights.whole,
        )

    def set(self, slot: int, packed: PackedAdapter) -> None:
        """Puts an adapter into a slot, in place of what is there."""
        self._in_head.discard(slot)
        if packed.changes_logits:
            self._in_head.add(slot)
        for site, part in zip(self._sites, packed.parts, strict=True):
            if part is None:
                site.adapted.clear(slot)
            else:
                site.adapted.set(slot, part)
        self.embeddings.set(slot, packed.embedding)
        self.heads.set(slot, packed.head)

    @property
    def change_logits(self) -> bool:
        """Whether an adapter in a slot changes the output layer, or has its own."""
        return bool(self._in_head)

    def clear(self, slot: int) -> None:
        """Empties a slot."""
        self.set(slot, PackedAdapter(parts=[None] * len(self._sites)))


def _side_by_side(widths: Iterable[int]) -> Iterator[Slice]:
    offset = 0
    for width in widths:
        yield Slice(offset, width)
        offset += width
