"""Samples one token per row of logits: by kernels, or in plain torch.

A row that has a not-a-number or +∞, or nothing above −∞, has no distribution. All of
these functions give `NO_TOKEN` for it: the maximum that they look for anyway tells.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch

from hookline_kernels.drawing import NO_TOKEN, invert_distribution, keep_likeliest
from hookline_kernels.failure import KernelError
from hookline_kernels.importing import import_compiled
from hookline_kernels.platform import CPU, Platform
from hookline_kernels.rejection import Verified, reject_reference

_log = logging.getLogger(__name__)


def argmax_reference(logits: torch.Tensor) -> torch.Tensor:
    """Returns the first index of each row's largest logit: [R, vocabulary] → [R]."""
    peaks, tokens = logits.float().max(-1)
    return tokens.masked_fill_(~peaks.isfinite(), NO_TOKEN)


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
    return invert_distribution(distributions(logits, temperatures), points)


def draw_filtered_reference(
    logits: torch.Tensor,
    temperatures: torch.Tensor,
    points: torch.Tensor,
    *,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
) -> torch.Tensor:
    """Like `draw_reference`, from the tokens that three filters keep.

    Args:
        logits: [R, vocabulary]; −∞ is never drawn.
        temperatures: [R] float32, above 0.
        points: [R] float64 in [0, 1).
        top_k: [R] int64; the vocabulary's size turns it off.
        top_p: [R] float32; 1 turns it off.
        min_p: [R] float32; 0 turns it off.

    Returns:
        [R] int64.
    """
    filters = top_k, top_p, min_p
    return invert_distribution(distributions(logits, temperatures, filters), points)


def distributions(
    logits: torch.Tensor,
    temperatures: torch.Tensor,
    filters: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """Returns what tokens are drawn from: [R, vocabulary] float32.

    A row that has no distribution becomes zeros, so that no draft of it is accepted.

    Args:
        logits: [R, vocabulary].
        temperatures: [R] float32, above 0.
        filters: Top-k, top-p and min-p, [R] each; None without any.
    """
    wide = logits.float()
    peaks = wide.amax(-1, keepdim=True)
    exists = peaks.isfinite()
    # Shifted, so that exp does not overflow.
    wide = torch.where(exists, wide - peaks, 0.0) / temperatures[:, None]
    if filters is not None:
        wide = keep_likeliest(wide, *filters)
    return wide.softmax(-1).mul_(exists)


@dataclass(frozen=True, slots=True)
class ChosenSampling:
    """The functions that sample.

    Attributes:
        argmax: Like `argmax_reference`.
        draw: Like `draw_reference`.
        name: `compiled`, `Triton` or `torch`.
        reason: Why it fell back to torch; empty if it did not.
        draw_filtered: Like `draw_filtered_reference`.
        reject: Like `reject_reference`.
    """

    argmax: Callable[[torch.Tensor], torch.Tensor]
    draw: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
    name: str
    reason: str = ""
    draw_filtered: Callable[..., torch.Tensor] = draw_filtered_reference
    reject: Callable[..., Verified] = reject_reference


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
