"""Counts the tensors of a checkpoint, and finds those that are not finite."""

from collections.abc import Iterator, Mapping
from math import prod

import torch

from hookline_models.checking.report import DtypeShare
from hookline_models.checkpoints.finite import NonFinite, joined, non_finite
from hookline_models.checkpoints.weight_files import TensorShard

_PIECE_BYTES = 64 * 2**20
"""Of a tensor that are in memory at a time."""
_BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}


def shares_of(tensors: Mapping[str, TensorShard]) -> tuple[DtypeShare, ...]:
    """Returns the tensors by data type, those with most bytes first."""
    counts: dict[str, tuple[int, int]] = {}
    for each in tensors.values():
        dtype = each.get_dtype()
        tensors_before, numbers = counts.get(dtype, (0, 0))
        counts[dtype] = tensors_before + 1, numbers + prod(each.get_shape())
    shares = [
        DtypeShare(
            dtype=dtype,
            tensors=count,
            numbers=numbers,
            nbytes=numbers * _bits_of(dtype) // 8,
        )
        for dtype, (count, numbers) in counts.items()
    ]
    return tuple(sorted(shares, key=lambda each: -each.nbytes))


def find_non_finite(tensors: Mapping[str, TensorShard]) -> list[NonFinite]:
    """Reads all tensors piece by piece, and returns those that are not finite."""
    found = []
    for name, each in tensors.items():
        pieces = [
            part
            for start, piece in _pieces(each)
            if (part := non_finite(name, piece, first_row=start)) is not None
        ]
        if pieces:
            found.append(joined(pieces, prod(each.get_shape())))
    return found


def _pieces(tensor: TensorShard) -> Iterator[tuple[int, torch.Tensor]]:
    """Yields ranges of rows, each with the index of its first one."""
    shape = tensor.get_shape()
    if not shape or not prod(shape):
        yield 0, tensor[...]
        return
    row_bytes = max(1, prod(shape[1:]) * _bits_of(tensor.get_dtype()) // 8)
    rows = max(1, _PIECE_BYTES // row_bytes)
    for start in range(0, shape[0], rows):
        yield start, tensor.rows(start, min(start + rows, shape[0]))


def _bits_of(dtype: str) -> int:
    """Returns the bits of a number, by the data type's name in safetensors files."""
    known = _BITS.get(dtype)
    if known is not None:
        return known
    digits = "".join(char for char in dtype.partition("_")[0] if char.isdecimal())
    return int(digits or 8)
