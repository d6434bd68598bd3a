"""Rotary embedding and cache write, between the QKV product and attention."""

import torch

from hookline_kernels.gpu.rotary import rotate_and_write
from hookline_kernels.head_shape import HeadNorms, HeadShape


class RotaryCache:
    """Norms, rotates and caches the heads of one layer; for one thread at a time."""

    def __init__(self, shape: HeadShape, norms: HeadNorms | None = None) -> None:
        """Compiles at the first call, not here."""
        self._sizes = (shape.num_heads, shape.num_kv_heads, shape.num_kv_heads)
        self._dim = shape.dim
        self._norms = norms

    def bind(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Sets the layer's cache, [blocks, block size, KV heads, dim], any strides."""
        self._keys, self._values = keys, values

    def __call__(
        self,
        heads: torch.Tensor,
        *,
        rotary: tuple[torch.Tensor, torch.Tensor],
        positions: torch.Tensor,  # noqa: ARG002 - `rotary` has a row for each token
        slots: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Rotates queries and keys, and writes keys and values to the cache.

        Args:
            heads: [T, `HeadShape.width`], contiguous: queries, keys, values;
                overwritten.
            rotary: Each token's cosines and sines, [T, dim] of the same dtype.
            positions: Unused.
            slots: [T] int64; block × block size + offset of each token, negative for
                tokens that are not written.

        Returns:
            Queries [T, heads, dim], and keys and values [T, KV heads, dim].
        """
        each = heads.view(len(heads), -1, self._dim)
        query, key, value = each.split_with_sizes(self._sizes, 1)
        rotate_and_write(
            query,
            key,
            value,
            *rotary,
            keys=self._keys,
            values=self._values,
            slots=slots,
            norms=self._norms,
        )
        return query, key, value
