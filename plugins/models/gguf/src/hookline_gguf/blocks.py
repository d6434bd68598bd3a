"""Numbers of tensors in GGUF's formats, as the package `gguf` dequantizes them."""

from types import EllipsisType
from typing import Final

import numpy as np
import torch
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Kind
from gguf.quants import dequantize

from hookline_gguf.header import TensorPlace

Index = EllipsisType | tuple[slice, ...]

MARK: Final = "gguf_"
"""Begins the last part of the names of tensors that are blocks, before their format."""
HEAD: Final = "tied_head"
"""Stands for an output layer whose weight is the embedding's."""
READ = frozenset(
    {
        *(Kind.F32, Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q4_0, Kind.Q4_1, Kind.Q5_0),
        *(Kind.Q5_1, Kind.Q2_K, Kind.Q3_K, Kind.Q4_K, Kind.Q5_K, Kind.Q6_K),
        *(Kind.IQ4_NL, Kind.IQ4_XS, Kind.MXFP4),
    }
)
"""Formats that are read."""

_NAMES = {Kind.F16: "F16", Kind.BF16: "BF16"}
"""Names that safetensors has for those of 16 bits."""


class BlockTensor:
    """The bytes of a tensor, uint8 [rows, bytes of a row]; implements `Stored`."""

    def __init__(
        self, place: TensorPlace, content: np.ndarray, heads: int | None = None
    ) -> None:
        """Reads nothing yet.

        Args:
            place: Where it is.
            content: The file's bytes, uint8.
            heads: Number of heads whose rows are in llama.cpp's order; None if rows are
                in that of `transformers`.
        """
        *rest, inputs = place.shape
        block, nbytes = GGML_QUANT_SIZES[place.kind]
        data = content[place.start : place.start + place.nbytes]
        self.kind = place.kind
        self._rows = data.reshape(*rest, inputs // block * nbytes)
        self._heads = heads

    def get_dtype(self) -> str:
        """Data type as safetensors names it."""
        return "U8"

    def get_shape(self) -> list[int]:
        return list(self._rows.shape)

    def __getitem__(self, index: Index) -> torch.Tensor:
        """Returns a copy."""
        return torch.from_numpy(self.rows()[index].copy())

    def rows(self) -> np.ndarray:
        """Returns all bytes, with rows in the order of `transformers`."""
        if self._heads is None:
            return self._rows
        pairs = self._rows.reshape(self._heads, -1, 2, *self._rows.shape[1:])
        return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(self._rows.shape)


class NumberTensor:
    """The numbers of a tensor; implements `Stored`."""

    def __init__(
        self, blocks: BlockTensor, shape: tuple[int, ...], offset: float = 0.0
    ) -> None:
        """Reads nothing yet.

        Args:
            blocks: Its bytes.
            shape: Its shape.
            offset: Is added to all numbers.
        """
        self._blocks, self._shape, self._offset = blocks, shape, offset

    def get_dtype(self) -> str:
        """Data type of what indexing returns, as safetensors names it."""
        return _NAMES.get(self._blocks.kind, "F32")

    def get_shape(self) -> list[int]:
        return list(self._shape)

    def __getitem__(self, index: Index) -> torch.Tensor:
        """Returns numbers, of float32 unless the file has 16 bits a number."""
        rows = self._blocks.rows()
        if not isinstance(index, EllipsisType) and rows.ndim > 1:
            rows, index = rows[index[0]], (slice(None), *index[1:])
        found = numbers(rows, self._blocks.kind)
        if self._offset:
            found = found.float() + self._offset
        return found if isinstance(index, EllipsisType) else found[index].clone()


def numbers(rows: np.ndarray, kind: Kind) -> torch.Tensor:
    """Returns the numbers of blocks: of float32 unless they have 16 bits each."""
    rows = np.ascontiguousarray(rows)
    if kind is Kind.F32:
        return torch.from_numpy(rows.view(np.float32).copy())
    if kind is Kind.F16:
        return torch.from_numpy(rows.view(np.float16).copy())
    if kind is Kind.BF16:
        return torch.from_numpy(rows.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(dequantize(rows, kind))
