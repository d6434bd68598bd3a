"""Picks a token a row: plain tensor operations, or kernels where they can be had."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import torch

from hookline_kernels.failure import KernelError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChosenSampling:
    """What picks tokens.

    Attributes:
        argmax: As `argmax_reference`.
        draw: As `draw_reference`.
        name: `compiled` or `torch`.
        reason: Why it is not compiled; empty if it is.
    """

    argmax: Callable[[torch.Tensor], torch.Tensor]
    draw: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
    name: str
    reason: str = ""


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


def choose_sampling(dtype: torch.dtype, *, may_compile: bool = True) -> ChosenSampling:
    """Kernels for logits of a dtype, or the references with a warning that says why.

    The compiler is imported here, so that whoever chooses nothing needs none.
    """
    if not may_compile:
        return REFERENCE_SAMPLING
    try:
        kernels = import_module("hookline_kernels.cpu.sampling")
        kernels.compile_for(dtype)
    except (ImportError, KernelError) as error:
        reason = str(error)
        _log.warning("sampling runs as plain tensor operations: %s", reason)
        return ChosenSampling(argmax_reference, draw_reference, "torch", reason)
    return ChosenSampling(kernels.argmax, kernels.draw, "compiled")
