"""Compiled masking: one pass over the masks, which writes what they ban."""

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hookline_kernels.cpu.elements import array_at, exact
from hookline_kernels.cpu.launching import Kernel, numbers_of
from hookline_kernels.cpu.memory import take


def apply(
    logits: torch.Tensor,
    indices: npt.NDArray[np.int64],
    masks: npt.NDArray[np.int32],
) -> None:
    """Like `apply_reference`, for float32 logits whose rows are contiguous."""
    masks, indices = np.ascontiguousarray(masks), np.ascontiguousarray(indices)
    _kernel()(
        len(indices) * logits.shape[1],
        numbers_of(
            len(indices),
            logits.shape[1],
            logits.stride(0),
            len(logits),
            masks.shape[1],
            logits.data_ptr(),
            indices.ctypes.data,
            masks.ctypes.data,
        ),
    )


def compile_now() -> None:
    """Compiles the kernel, or reads it from disk.

    Raises:
        KernelError: It cannot be compiled here.
    """
    _kernel()


@functools.cache
def _kernel() -> Kernel:
    def mask_rows(numbers: Any) -> None:
        given = array_at(numbers, 9, np.int64)
        count, width, stride = given[1], given[2], given[3]
        logits = array_at(given[6], given[4] * stride, np.float32)
        indices = array_at(given[7], count, np.int64)
        words = given[5]
        masks = array_at(given[8], count * words, np.int32)
        at = take(numbers, 1)
        while at < count:
            start = indices[at] * stride
            _mask_row(
                logits[start : start + width], masks[at * words : (at + 1) * words]
            )
            at = take(numbers, 1)

    return Kernel(mask_rows, "mask-rows")


@exact
def _mask_row(logits: Any, mask: Any) -> Any:
    banned = np.float32(-np.inf)
    width = len(logits)
    for word in range(len(mask)):
        bits = mask[word]
        first = word * 32
        last = min(first + 32, width)
        if bits == 0:
            for token in range(first, last):
                logits[token] = banned
        elif bits != -1:
            for token in range(first, last):
                if (bits >> np.int32(token - first)) & np.int32(1) == 0:
                    logits[token] = banned
    return 0
