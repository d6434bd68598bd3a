"""Reads an adapter's weights as a worker computes with them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from hookline_lora.config import LoraConfig
from hookline_lora.exceptions import AdapterError
from hookline_lora.files.header import Place
from hookline_lora.files.layout import Layout, opened
from hookline_lora.files.matching import StoredProduct, Targets
from hookline_lora.files.numbers import Converter, are_finite, pieces
from hookline_lora.files.parts import WHOLE, Kept, Part, cuts_of
from hookline_lora.pacing import Rest, no_rest
from hookline_models.checkpoints.cut import Cut

_NAMES: Final = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LowRank:
    """What a module adds to its output: `up @ (down @ x)`.

    Attributes:
        down: A, [rank, in]; of an embedding [rank, vocabulary].
        up: B, [out, rank], with the scale.
    """

    down: torch.Tensor
    up: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterWeights:
    """An adapter's weights, or one rank's part of them, in main memory.

    Attributes:
        digest: That of the whole adapter.
        products: By module.
        whole: Weights that replace the base's, [out, in], by module.
    """

    digest: str
    products: Mapping[str, LowRank]
    whole: Mapping[str, torch.Tensor]

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors."""
        pairs = [
            each for pair in self.products.values() for each in (pair.down, pair.up)
        ]
        return sum(each.nbytes for each in (*pairs, *self.whole.values()))


def read_adapter(
    path: Path,
    *,
    digest: str,
    targets: Targets,
    config: LoraConfig,
    dtype: torch.dtype,
    part: Part | None = None,
    rest: Rest = no_rest,
) -> AdapterWeights:
    """Reads the weights of an adapter that `describe_adapter` has described.

    Everything is read and checked once more, also what a rank has no part of. Takes as
    long as reading the files, on one thread, and the memory of the weights and a few
    MiB.

    Args:
        path: The adapter's folder.
        digest: That of the description.
        targets: As for the description.
        config: As for the description.
        dtype: Numbers of the base model: bfloat16, float16 or float32.
        part: What this rank has of each weight; None for all.
        rest: Called after each piece of work.

    Raises:
        AdapterError: It cannot be used with this base, its numbers are too large for
            `dtype`, or it has another digest: its files have been changed.
        ValueError: `part` cannot divide a weight evenly.
    """
    with opened(path, targets, config) as layout:
        reader = _Reader(layout, dtype, part, rest)
        products = {
            each.module: found
            for each in layout.products
            if (found := reader.product(each)) is not None
        }
        whole = {
            module: weight
            for module, place in layout.whole.items()
            if (weight := reader.weight(module, place)) is not None
        }
        if (found_digest := reader.digest.hexdigest()) != digest:
            raise AdapterError(
                str(path),
                f"its files have been changed: their digest is {found_digest[:16]}…, "
                f"not {digest[:16]}…",
            )
    return AdapterWeights(digest=digest, products=products, whole=whole)


class _Reader:
    """Reads tensors in the layout's order, and digests them."""

    def __init__(
        self, layout: Layout, dtype: torch.dtype, part: Part | None, rest: Rest
    ) -> None:
        self.digest = layout.started_digest()
        self._file, self._dtype, self._rest = layout.file, dtype, rest
        self._part = part or (lambda _module, _shape: WHOLE)

    def product(self, stored: StoredProduct) -> LowRank | None:
        """Reads both matrices; returns None if the rank has no part of the module."""
        outputs, inputs = stored.up.shape[0], stored.down.shape[1]
        shape = (inputs, outputs) if stored.is_embedding else (outputs, inputs)
        cut = self._part(stored.module, shape)
        of_down, of_up = (None, None) if cut is None else cuts_of(stored, cut)
        down = self._tensor(f"A of {stored.module}", stored.down, of_down)
        up = self._tensor(f"B of {stored.module}", stored.up, of_up, stored.scale)
        return None if down is None or up is None else LowRank(down=down, up=up)

    def weight(self, module: str, place: Place) -> torch.Tensor | None:
        """Reads a whole weight; returns None if the rank has no part of it."""
        cut = self._part(module, place.shape)
        return self._tensor(f"the weight of {module}", place, cut)

    def _tensor(
        self, name: str, place: Place, cut: Cut | None, scale: float = 1.0
    ) -> torch.Tensor | None:
        """Reads a tensor, and keeps a part; without a cut nothing."""
        kept = None if cut is None else Kept(place.shape, cut, self._dtype)
        dtype = _NAMES[self._dtype]
        converter = Converter(place.dtype, dtype, scale)
        for start, bits in pieces(self._file, place, self._rest):
            if not are_finite(bits, place.dtype):
                raise ValueError(f"{name} has numbers that are infinite or NaN")
            self.digest.update(bits.data)
            if kept is None:
                continue
            found = converter.converted(bits)
            if found is not bits and not are_finite(found, dtype):
                raise ValueError(
                    f"{name} with its scale is too large for {self._dtype}"
                )
            kept.add(start, found)
        return None if kept is None else kept.tensor
