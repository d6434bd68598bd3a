"""Applies packed masks of allowed tokens to logits: by a kernel, or in plain torch."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from hookline_kernels.failure import KernelError
from hookline_kernels.importing import import_compiled

_log = logging.getLogger(__name__)

NEGATIVE_INFINITY = float("-inf")

Apply = Callable[[torch.Tensor, npt.NDArray[np.int64], npt.NDArray[np.int32]], None]


@dataclass(frozen=True, slots=True)
class TokenMasking:
    """The function that applies masks.

    Attributes:
        apply: Like `apply_reference`.
        name: `compiled` or `torch`.
    """

    apply: Apply
    name: str


def apply_reference(
    logits: torch.Tensor,
    indices: npt.NDArray[np.int64],
    masks: npt.NDArray[np.int32],
) -> None:
    """Makes the tokens impossible whose bits are 0.

    Args:
        logits: [S, vocabulary] float32; changed in place.
        indices: [n] rows of the logits, without duplicates.
        masks: [n, ⌈vocabulary / 32⌉]; bit i of word w is that of token 32·w + i.
    """
    words = torch.from_numpy(np.ascontiguousarray(masks)).to(logits.device)
    at = torch.from_numpy(indices).to(logits.device)
    shifts = torch.arange(32, dtype=torch.int32, device=logits.device)
    bits = (words[:, :, None] >> shifts) & 1
    is_banned = bits.flatten(1)[:, : logits.shape[1]] == 0
    logits[at] = logits[at].masked_fill_(is_banned, NEGATIVE_INFINITY)


REFERENCE_MASKING = TokenMasking(apply_reference, "torch")


def choose_masking(*, may_compile: bool = True) -> TokenMasking:
    """Returns a compiled kernel for logits in main memory, or the torch reference.

    Falls back, with a warning that names the cause, where it cannot be compiled.
    """
    if not may_compile:
        return REFERENCE_MASKING
    try:
        kernel = import_compiled("hookline_kernels.cpu.token_mask")
        kernel.compile_now()
    except KernelError as error:
        _log.warning("token masks fall back to torch: %s", error)
        return REFERENCE_MASKING
    return TokenMasking(kernel.apply, "compiled")
