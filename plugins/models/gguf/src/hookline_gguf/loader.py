"""Reads the tensors of a model's GGUF files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from hookline.exceptions import ModelLoadError
from hookline_gguf.blocks import HEAD, MARK, READ, BlockTensor, NumberTensor
from hookline_gguf.configuration import Family, family_of
from hookline_gguf.header import GgufError, TensorPlace
from hookline_gguf.names import EMBEDDING, OUTPUT, ROPE_TENSORS, usual_name
from hookline_gguf.packing import PACKED
from hookline_gguf.parts import GgufModel, read_model
from hookline_kernels.quantized_weight import LEAST_GROUP
from hookline_models.checkpoints.cut import Stored

_HEADS = {
    "attn_q": "attention.head_count",
    "attn_k": "attention.head_count_kv",
}
"""Weights whose rows belong to heads, with the key of their number."""


class GgufLoader:
    """Reads tensors from mapped files; implements `ModelLoader`.

    Weights of linear layers in formats that kernels have are given as blocks, whose
    names end with their format, for `GgufMethod`.
    """

    def __init__(self, name: str, paths: Sequence[Path]) -> None:
        """Opens nothing yet.

        Args:
            name: The model's name, for errors.
            paths: Its files.
        """
        self.files = tuple(each.name for each in paths)
        self._name, self._paths = name, paths
        self._contents: dict[Path, np.ndarray] = {}

    def __enter__(self) -> Self:
        """Maps the files.

        Raises:
            OSError: One cannot be read.
        """
        self._contents = {
            each: np.memmap(each, np.uint8, mode="r") for each in self._paths
        }
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leaves the files to whatever still reads them."""
        self._contents = {}

    def tensors(self) -> Mapping[str, Stored]:
        """Implements `ModelLoader`."""
        try:
            model = read_model(self._paths)
            family = family_of(model)
            found: dict[str, Stored] = {}
            for name, place in model.tensors.items():
                if name.rpartition(".")[0] not in ROPE_TENSORS:
                    found |= self._tensor(model, family, name, place)
        except GgufError as error:
            raise ModelLoadError(self._name, str(error)) from error
        return found

    def _tensor(
        self, model: GgufModel, family: Family, name: str, place: TensorPlace
    ) -> dict[str, Stored]:
        """Returns a tensor by its name, which tells whether it is given as blocks."""
        if place.kind not in READ:
            raise GgufError(
                f"{place.path.name} has {name} in the format {place.kind.name}; "
                f"{', '.join(sorted(each.name for each in READ))} are read"
            )
        usual = usual_name(model.architecture, name)
        part = name.split(".")[-2]
        heads = None
        if family.permutes and part in _HEADS:
            queries = model.own("attention.head_count", int)
            heads = model.own(_HEADS[part], int, queries)
            if heads < 1 or place.shape[0] % (2 * heads):
                raise GgufError(f"{name} has {place.shape[0]} rows of {heads} heads")
        blocks = BlockTensor(place, self._contents[place.path], heads)
        as_blocks = f"{usual.removesuffix('.weight')}.{MARK}{place.kind.name}"
        if name != EMBEDDING and _has_kernels(place):
            return {as_blocks: blocks}
        is_norm = family.adds_one and part.endswith("norm")
        plain = NumberTensor(blocks, place.shape, -1.0 if is_norm else 0.0)
        found: dict[str, Stored] = {usual: plain}
        if name == EMBEDDING and OUTPUT not in model.tensors and _has_kernels(place):
            found[f"{HEAD}.{MARK}{place.kind.name}"] = blocks
        return found


def _has_kernels(place: TensorPlace) -> bool:
    """Whether a weight fits the kernels of quantized layers as it is."""
    return (
        place.kind in PACKED
        and len(place.shape) == 2
        and all(size % LEAST_GROUP == 0 for size in place.shape)
    )
