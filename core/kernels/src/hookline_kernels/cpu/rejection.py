"""Compiled rejection sampling (Leviathan et al. 2023; Chen et al. 2023).

Each request takes one pass over the vocabulary. It is fastest for proposers that are
certain of their drafts, as one row of probabilities is read; otherwise it is two.
"""

import functools
from typing import Any

import numpy as np
import torch

from hookline_kernels.cpu.elements import array_at, exact, summing
from hookline_kernels.cpu.launching import Kernel, numbers_of
from hookline_kernels.cpu.memory import take
from hookline_kernels.rejection import Verified

_SPAN = 512
"""Tokens in a span, whose mass is computed before the token is found."""


def reject(
    draft_tokens: torch.Tensor,
    draft_starts: torch.Tensor,
    draft_probabilities: torch.Tensor | None,
    target_probabilities: torch.Tensor,
    *,
    accept_points: torch.Tensor,
    next_points: torch.Tensor,
) -> Verified:
    """Like `reject_reference`; tokens and starts are int64, points float64."""
    count, width = len(next_points), target_probabilities.shape[1]
    accepted, following = torch.empty(2, count, dtype=torch.int64)
    drafts = draft_probabilities
    if drafts is not None:
        drafts = drafts.contiguous()
    targets = target_probabilities.contiguous()
    masses = torch.empty(count, -(-width // _SPAN), dtype=torch.float64)
    inputs = [
        tensor.contiguous()
        for tensor in (draft_tokens, draft_starts, accept_points, next_points)
    ]
    _kernel()(
        count * width,
        numbers_of(
            count,
            width,
            *(each.data_ptr() for each in inputs),
            0 if drafts is None else drafts.data_ptr(),
            *(each.data_ptr() for each in (targets, accepted, following, masses)),
        ),
    )
    return Verified(accepted, following)


@functools.cache
def _kernel() -> Kernel:
    def reject_drafts(numbers: Any) -> None:
        given = array_at(numbers, 12, np.int64)
        count, width = given[1], given[2]
        spans = -(-width // _SPAN)
        starts = array_at(given[4], count + 1, np.int64)
        total = starts[count]
        tokens = array_at(given[3], total, np.int64)
        accept_points = array_at(given[5], total, np.float64)
        next_points = array_at(given[6], count, np.float64)
        certain = given[7] == 0
        # Not read if the proposer was certain.
        drafts = array_at(given[7], total * width, np.float32)
        targets = array_at(given[8], (total + count) * width, np.float32)
        accepted = array_at(given[9], count, np.int64)
        following = array_at(given[10], count, np.int64)
        masses = array_at(given[11], count * spans, np.float64)
        request = take(numbers, 1)
        while request < count:
            at, end = starts[request], starts[request + 1]
            while at < end:
                drafted = 1.0
                if not certain:
                    drafted = np.float64(drafts[at * width + tokens[at]])
                target = np.float64(targets[(at + request) * width + tokens[at]])
                if accept_points[at] * drafted >= target:
                    break
                at += 1
            accepted[request] = at - starts[request]
            row = targets[(at + request) * width : (at + request + 1) * width]
            mine = masses[request * spans : (request + 1) * spans]
            less = row[:0]
            refused = np.int64(-1)
            if at < end:
                if certain:
                    refused = tokens[at]
                else:
                    less = drafts[at * width : (at + 1) * width]
            following[request] = _pick(row, less, refused, next_points[request], mine)
            request = take(numbers, 1)

    return Kernel(reject_drafts, "reject-drafts")


@exact
def _pick(row: Any, less: Any, refused: Any, point: Any, masses: Any) -> Any:
    """Draws from the row's excess over the other, or from the row without any.

    `refused` is a token without any excess, or -1.
    """
    total = _measure(row, less, refused, masses)
    if total == 0:  # equal up to rounding
        less, refused = row[:0], np.int64(-1)
        total = _measure(row, less, refused, masses)
    target, span, final = point * total, 0, 0
    for index in range(len(masses)):
        if masses[index] > 0:
            final = index
    while span < final and masses[span] <= target:
        target -= masses[span]
        span += 1
    last = span * _SPAN
    for token in range(last, min(last + _SPAN, len(row))):
        weight = row[token]
        if len(less):
            weight = max(weight - less[token], np.float32(0.0))
        if weight > 0 and token != refused:
            last = token
            target -= weight
            if target < 0:
                break
    return last


@exact
def _measure(row: Any, less: Any, refused: Any, masses: Any) -> Any:
    """Writes the mass of each span; returns their sum."""
    total = 0.0
    for span in range(len(masses)):
        start = span * _SPAN
        part = row[start : start + _SPAN]
        if len(less):
            masses[span] = _excess(part, less[start : start + _SPAN])
        else:
            masses[span] = _sum(part)
        if start <= refused < start + len(part):
            # Exactly 0 without excess, or the refused token might be drawn.
            masses[span] = _sum(part[: refused - start])
            masses[span] += _sum(part[refused - start + 1 :])
        total += masses[span]
    return total


@summing
def _sum(weights: Any) -> Any:
    mass = np.float32(0.0)
    for index in range(len(weights)):
        mass += weights[index]
    return mass


@summing
def _excess(weights: Any, less: Any) -> Any:
    mass = np.float32(0.0)
    for index in range(len(weights)):
        mass += max(weights[index] - less[index], np.float32(0.0))
    return mass
