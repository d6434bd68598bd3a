"""Picks a token a row: plain tensor operations, or kernels where they can be had."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import torch

from hookline_kernels.failure import KernelError
from hookline_kernels.inverting import invert_distribution
from hookline_kernels.platform import CPU, Platform
from hookline_kernels.rejection import Verified, reject_reference

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChosenSampling:
    """What picks tokens.

    Attributes:
        argmax: As `argmax_reference`.
        draw: As `draw_reference`.
        name: `compiled`, `Triton` or `torch`.
        reason: Why it is plain torch; empty if it is not, or if that was wanted.
        draw_filtered: As `draw`, and then by keyword `top_k` [R] int64, `top_p` and
            `min_p` [R] float32, each off at the vocabulary's size, 1 and 0; None where
            no kernel filters.
        reject: As `reject_reference`.
    """

    argmax: Callable[[torch.Tensor], torch.Tensor]
    draw: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
    name: str
    reason: str = ""
    draw_filtered: Callable[..., torch.Tensor] | None = None
    reject: Callable[..., Verified] = reject_reference


def argmax_reference(logits: torch.Tensor) -> torch.Tensor:
    """The first of the largest logits of each row: [R] of [R, vocabulary]."""
    return logits.float().argmax(-1)


def draw_reference(
    logits: torch.Tensor, temperatures: torch.Tensor, points: torch.Tensor
) -> torch.Tensor:
    """The token at which each row's running sum of probabilities passes its point.

    Args:
        logits: [R, vocabulary]; −∞ is never drawn.
        temperatures: [R] float32, above 0.
        points: [R] float64 in [0, 1).

    Returns:
        [R] int64.
    """
    wide = logits.float()
    wide = wide - wide.amax(-1, keepdim=True)  # so that none overflows
    return invert_distribution((wide / temperatures[:, None]).softmax(-1), points)


REFERENCE_SAMPLING = ChosenSampling(argmax_reference, draw_reference, "torch")


def choose_sampling(
    dtype: torch.dtype, *, may_compile: bool = True, platform: Platform = CPU
) -> ChosenSampling:
    """Kernels for logits of a dtype, or the references with a warning that says why.

    The compiler is imported here, so that whoever chooses nothing needs none.
    """
    if not may_compile:
        return REFERENCE_SAMPLING
    try:
        return _triton() if platform.is_gpu else _compiled(dtype)
    except (ImportError, KernelError) as error:
        reason = str(error)
        _log.warning("sampling runs as plain tensor operations: %s", reason)
        return ChosenSampling(argmax_reference, draw_reference, "torch", reason)


def _compiled(dtype: torch.dtype) -> ChosenSampling:
    kernels = import_module("hookline_kernels.cpu.sampling")
    kernels.compile_for(dtype)
    rejection = import_module("hookline_kernels.cpu.rejection")
    return ChosenSampling(
        kernels.argmax, kernels.draw, "compiled", reject=rejection.reject
    )


def _triton() -> ChosenSampling:
    """Compiled at the first call; takes logits of any dtype."""
    kernels = import_module("hookline_kernels.gpu.sampling")
    rejection = import_module("hookline_kernels.gpu.rejection")
    return ChosenSampling(
        kernels.argmax,
        kernels.draw,
        "Triton",
        draw_filtered=kernels.draw_filtered,
        reject=rejection.reject,
    )
