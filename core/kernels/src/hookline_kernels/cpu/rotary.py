"""Rotary position embedding (Su et al., 2021) of queries and keys in one pass."""

import ctypes
import functools
from typing import Any

import numpy as np
import torch

from hookline_kernels.cpu.elements import (
    SCALARS,
    array_at,
    exact,
    narrow,
    size_of,
    take_rows,
    widen,
)
from hookline_kernels.cpu.launching import Kernel, numbers_of
from hookline_kernels.failure import KernelError

_TOKENS = 8
"""Tokens that a thread takes at once."""


def rotate_reference(
    values: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor
) -> torch.Tensor:
    """In torch, as models write it; the first half of a head pairs with the second."""
    first, second = values.chunk(2, -1)
    turned = torch.cat((-second, first), -1)
    return values * cosines[:, None] + turned * sines[:, None]


class Rotary:
    """Turns each pair of a head's numbers by its token's angle.

    Rounds each product and each sum to the dtype, as the reference does. One thread
    calls it at a time.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        """Compiles what is not compiled yet.

        Raises:
            KernelError: There is none for this dtype or machine.
        """
        if dtype not in SCALARS:
            raise KernelError(f"there is no compiled rotary embedding for {dtype}")
        self._dtype = dtype
        self._kernel = _kernel(dtype)
        self._numbers = numbers_of(*[0] * 14)
        self._angles: tuple[torch.Tensor, torch.Tensor] | None = None

    def takes(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        cosines: torch.Tensor,
        sines: torch.Tensor,
    ) -> bool:
        """Whether a call with these is right; angles of the call before are known."""
        known = self._angles
        if known is None or known[0] is not cosines or known[1] is not sines:
            if not (self._are_angles(cosines) and self._are_angles(sines)):
                return False
            if cosines.shape != sines.shape:
                return False
            self._angles = (cosines, sines)
        return self._are_heads(query, cosines) and self._are_heads(key, cosines)

    def _are_angles(self, values: torch.Tensor) -> bool:
        return (
            values.ndim == 3
            and values.shape[0] == 1
            and values.shape[2] % 2 == 0
            and values.dtype == self._dtype
            and values.device.type == "cpu"
            and values.is_contiguous()
        )

    def _are_heads(self, values: torch.Tensor, angles: torch.Tensor) -> bool:
        return (
            values.ndim == 4
            and values.shape[0] == 1
            and values.shape[2:] == angles.shape[1:]
            and values.stride(3) == 1
            and values.dtype == self._dtype
        )

    def __call__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        cosines: torch.Tensor,
        sines: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Turns queries and keys; they may differ in heads.

        Args:
            query: [1, heads, T, head dim], any strides but the last.
            key: The same.
            cosines: [1, T, head dim], contiguous.
            sines: The same.

        Returns:
            Both in the same shape; in memory [1, T, heads, head dim].
        """
        _, heads, tokens, width = query.shape
        key_heads = key.shape[1]
        dtype, numbers = query.dtype, self._numbers
        new_query = torch.empty((1, tokens, heads, width), dtype=dtype)
        new_key = torch.empty((1, tokens, key_heads, width), dtype=dtype)
        numbers[1:5] = [tokens, width, cosines.data_ptr(), sines.data_ptr()]
        numbers[5:10] = _side(query, new_query)
        numbers[10:15] = _side(key, new_key)
        self._kernel(tokens * width * (heads + key_heads), numbers)
        return new_query.transpose(1, 2), new_key.transpose(1, 2)


def _side(values: torch.Tensor, output: torch.Tensor) -> list[int | ctypes.c_int64]:
    """Heads, addresses and strides of queries or of keys."""
    return [
        values.shape[1],
        values.data_ptr(),
        output.data_ptr(),
        values.stride(1),
        values.stride(2),
    ]


@functools.cache
def _kernel(dtype: torch.dtype) -> Kernel:
    scalar = SCALARS[dtype]

    def rotate_tokens(numbers: Any) -> None:
        given = array_at(numbers, 15, np.int64)
        tokens, width = given[1], given[2]
        cosines = array_at(given[3], tokens * width, scalar)
        sines = array_at(given[4], tokens * width, scalar)
        first = take_rows(numbers, _TOKENS)
        while first < tokens:
            for token in range(first, min(first + _TOKENS, tokens)):
                angles = slice(token * width, (token + 1) * width)
                for side in (given[5:10], given[10:15]):
                    _rotate_token(side, token, cosines[angles], sines[angles], scalar)
            first = take_rows(numbers, _TOKENS)

    return Kernel(rotate_tokens, f"rotate-tokens-{str(dtype)[6:]}")


@exact
def _rotate_token(side: Any, token: Any, cosines: Any, sines: Any, scalar: Any) -> None:
    """All heads of a token, of queries or of keys; `side` is that of `_side`."""
    heads, width, size = side[0], len(cosines), size_of(scalar)
    for head in range(heads):
        start = side[1] + (token * side[4] + head * side[3]) * size
        target = side[2] + (token * heads + head) * width * size
        _rotate_head(
            array_at(start, width, scalar),
            cosines,
            sines,
            array_at(target, width, scalar),
            scalar,
        )


@exact
def _rotate_head(
    values: Any, cosines: Any, sines: Any, output: Any, scalar: Any
) -> None:
    half = len(output) // 2
    for index in range(half):
        first, second = widen(values[index]), widen(values[half + index])
        kept = widen(narrow(first * widen(cosines[index]), scalar))
        turned = widen(narrow(-second * widen(sines[index]), scalar))
        output[index] = narrow(kept + turned, scalar)
        kept = widen(narrow(second * widen(cosines[half + index]), scalar))
        turned = widen(narrow(first * widen(sines[half + index]), scalar))
        output[half + index] = narrow(kept + turned, scalar)
