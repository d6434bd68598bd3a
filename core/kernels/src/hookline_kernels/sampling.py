"""Samples one token per row of logits: by kernels, or in plain torch."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch

from hookline_kernels.drawing import invert_distribution
from hookline_kernels.failure import KernelError
from hookline_kernels.importing import import_compiled
from hookline_kernels.platform import CPU, Platform
from hookline_kernels.rejection import Verified, reject_reference

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChosenSampling:
    """The functions that sample.

    Attributes:
        argmax: Like `argmax_reference`.
        draw: Like `draw_reference`.
        name: `compiled`, `Triton` or `torch`.
        reason: Why it fell back to torch; empty if it did not.
        draw_filtered: Like `draw`, with the keywords `top_k` [R] int64, `top_p` and
            `min_p` [R] float32, which the vocabulary's size, 1 and 0 turn off; None
            if no kernel filters.
        reject: Like `reject_reference`.
    """

    argmax: Callable[[torch.Tensor], torch.Tensor]
    draw: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
    name: str
    reason: str = ""
    draw_filtered: Callable[..., torch.Tensor] | None = None
    reject: Callable[..., Verified] = reject_reference


def argmax_reference(logits: torch.Tensor) -> torch.Tensor:
    """Returns the first index of each row's largest logit: [R, vocabulary] → [R]."""
    return logits.float().argmax(-1)


def draw_reference(
    logits: torch.Tensor, temperatures: torch.Tensor, points: torch.Tensor
) -> torch.Tensor:
    """Returns the token at which each row's cumulative probability passes its point.

    Args:
        logits: [R, vocabulary]; −∞ is never drawn.
        temperatures: [R] float32, above 0.
        points: [R] float64 in [0, 1).

    Returns:
        [R] int64.
    """
    wide = logits.float()
    wide = wide - wide.amax(-1, keepdim=True)  # exp must not overflow
    return invert_distribution((wide / temperatures[:, None]).softmax(-1), points)


REFERENCE_SAMPLING = ChosenSampling(argmax_reference, draw_reference, "torch")


def choose_sampling(
    dtype: torch.dtype, *, may_compile: bool = True, platform: Platform = CPU
) -> ChosenSampling:
    """Returns kernels for logits of a dtype, or the torch references.

    Falls back, with a warning that names the cause, where the compiler is not installed
    or has no kernel for the dtype. Compilers are imported only here and on demand.
    """
    if not may_compile:
        return REFERENCE_SAMPLING
    try:
        return _triton() if platform.is_gpu else _compiled(dtype)
    except KernelError as error:
        reason = str(error)
        _log.warning("sampling falls back to torch: %s", reason)
        return ChosenSampling(argmax_reference, draw_reference, "torch", reason)


def _compiled(dtype: torch.dtype) -> ChosenSampling:
    kernels = import_compiled("hookline_kernels.cpu.sampling")
    kernels.compile_for(dtype)
    rejection = import_compiled("hookline_kernels.cpu.rejection")
    return ChosenSampling(
        kernels.argmax, kernels.draw, "compiled", reject=rejection.reject
    )


def _triton() -> ChosenSampling:
    """Compile at the first call; take logits of any dtype."""
    kernels = import_compiled("hookline_kernels.gpu.sampling")
    rejection = import_compiled("hookline_kernels.gpu.rejection")
    return ChosenSampling(
        kernels.argmax,
        kernels.draw,
        "Triton",
        draw_filtered=kernels.draw_filtered,
        reject=rejection.reject,
    )
