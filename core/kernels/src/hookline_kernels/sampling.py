"""Picks a token a row: plain tensor operations, or kernels where they can be had."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import torch

from hookline_kernels.failure import KernelError
from hookline_kernels.platform import CPU, Platform

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
    """

    argmax: Callable[[torch.Tensor], torch.Tensor]
    draw: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
    name: str
    reason: str = ""
    draw_filtered: Callable[..., torch.Tensor] | None = None


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


def invert_distribution(
    probabilities: torch.Tensor, points: torch.Tensor
) -> torch.Tensor:
    """The token at which the cumulative distribution passes each point.

    Args:
        probabilities: [R, vocabulary]; a token with probability 0 is never returned.
        points: [R] in [0, 1).
    """
    cumulative = probabilities.cumsum(-1, dtype=torch.float64)
    totals = cumulative[:, -1:].contiguous()
    found = torch.searchsorted(cumulative, points[:, None] * totals, right=True)
    # A point may round up to the total: then it belongs to the last possible token.
    last = torch.searchsorted(cumulative, totals)
    return torch.minimum(found, last)[:, 0]


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
    return ChosenSampling(kernels.argmax, kernels.draw, "compiled")


def _triton() -> ChosenSampling:
    """Compiled at the first call; takes logits of any dtype."""
    kernels = import_module("hookline_kernels.gpu.sampling")
    filtered = kernels.draw_filtered
    return ChosenSampling(
        kernels.argmax, kernels.draw, "Triton", draw_filtered=filtered
    )
