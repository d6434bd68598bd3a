"""Who shares a step, and who holds what others wait for."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hookline.clock import NANOSECONDS
from hookline_insight.account import Cause
from hookline_recording import RecordedStep
from hookline_recording.costs import FittedCosts, StepSize
from hookline_recording.schema import Planned

MOST_HOLDERS = 8
"""So many requests that hold something are told; the others are one."""


class Weight(NamedTuple):
    """What a step's time went to, in proportion.

    Attributes:
        weight: Expected ns.
        request_id: Whose, if one request's.
        amount: Tokens, or requests.
    """

    cause: Cause
    weight: float
    request_id: int | None
    amount: int


Holders = Sequence[tuple[int | None, int]]
"""(request, amount) of those that hold most, then (None, amount) of all others."""


def size_of(step: RecordedStep) -> StepSize:
    """Returns what a step computed, in the terms of the cost model."""
    planned = step.planned
    if planned is None or step.request_ids is None:
        return StepSize(0, 0)
    decodes = len(step.request_ids) - planned.prefill_requests
    return StepSize(max(0, decodes), planned.prefill_tokens)


def prefills(step: RecordedStep) -> dict[int, int]:
    """Returns the tokens of prompts, or recomputed ones, of a step by request."""
    planned = step.planned
    if planned is None or not planned.prefill_requests:
        return {}
    drafts = _draft_counts(planned)
    admitted = {request_id for request_id, _ in planned.admitted or ()}
    tokens = step.request_tokens
    # Those with most tokens compute prompts; of one token, those that have just come.
    order = sorted(
        tokens,
        key=lambda each: (tokens[each] - drafts.get(each, 0), each in admitted),
        reverse=True,
    )
    return {each: tokens[each] for each in order[: planned.prefill_requests]}


def _draft_counts(planned: Planned) -> dict[int, int]:
    return {
        request_id: drafts if isinstance(drafts, int) else len(drafts)
        for request_id, drafts in (planned.drafts or {}).items()
    }


def weights(
    step: RecordedStep,
    request_id: int,
    costs: FittedCosts,
    duration: int,
    taken_ns: float,
    *,
    is_resumed: bool,
) -> list[Weight]:
    """Shares the time of a step out, as one of its requests sees it.

    Args:
        step: The step.
        request_id: The request.
        costs: What steps cost.
        duration: Of the step, ns.
        taken_ns: How long it had no CPU.
        is_resumed: Whether the request computes again what it had lost.
    """
    tokens, prompts = step.request_tokens, prefills(step)
    others = {each: number for each, number in prompts.items() if each != request_id}
    decodes = len(tokens) - len(prompts) - (request_id not in prompts)
    own = Cause.RECOMPUTED if is_resumed and request_id in prompts else Cause.OWN
    if not costs.is_fitted:
        rows = [Weight(own, float(tokens[request_id]), request_id, tokens[request_id])]
        rows += _prompts(others, 1.0)
        rows.append(Weight(Cause.OTHERS_TOKENS, float(decodes), None, decodes))
        return rows
    cost = costs.cost
    each_prefill = cost.prefill * NANOSECONDS
    each_decode = cost.decode * NANOSECONDS
    own_ns = (
        each_prefill * prompts[request_id] if request_id in prompts else each_decode
    )
    rows = [
        Weight(own, own_ns, request_id, tokens[request_id]),
        Weight(Cause.FIXED, cost.fixed * NANOSECONDS, None, len(tokens)),
        *_prompts(others, each_prefill),
        Weight(Cause.OTHERS_TOKENS, each_decode * decodes, None, decodes),
    ]
    expected = sum(row.weight for row in rows)
    taken = min(taken_ns, max(0.0, duration - expected))
    rest = duration - taken
    if taken:
        rows.append(Weight(Cause.CPU, taken, None, 0))
    scale, slower = costs.divided(expected, rest)
    if slower:
        is_compiling = step.computed is not None and step.computed.kernels_compiling
        slow = Cause.COMPILING if is_compiling else Cause.UNEXPLAINED
        rows.append(Weight(slow, slower, None, 0))
    else:
        rows = [
            row if row.cause is Cause.CPU else row._replace(weight=row.weight * scale)
            for row in rows
        ]
    return rows


def _prompts(others: Mapping[int, int], each: float) -> list[Weight]:
    return [
        Weight(Cause.OTHERS_PROMPTS, each * number, other, number)
        for other, number in others.items()
    ]


class HeldBlocks:
    """The KV blocks of requests after each step; asked in the order of steps."""

    def __init__(self, steps: Sequence[RecordedStep]) -> None:
        self._steps = steps
        self._at = 0
        self._blocks: dict[int, int] = {}

    def after(self, index: int) -> Mapping[int, int]:
        """Returns the number of blocks by request after the plan of a step."""
        if index + 1 < self._at:
            self._at, self._blocks = 0, {}
        while self._at <= index:
            planned = self._steps[self._at].planned
            self._at += 1
            if planned is None:
                continue
            for gone in planned.released or ():
                self._blocks.pop(gone, None)
            for admitted, _ in planned.admitted or ():
                self._blocks[admitted] = 0
            for request_id, blocks in (planned.new_blocks or {}).items():
                held = self._blocks.get(request_id, 0)
                self._blocks[request_id] = held + len(blocks)
        return self._blocks


def most(amounts: Mapping[int, int]) -> Holders:
    """Returns those who hold most, and all others as one."""
    found: list[tuple[int | None, int]] = []
    found += Counter(amounts).most_common(MOST_HOLDERS)
    rest = sum(amounts.values()) - sum(amount for _, amount in found)
    return [*found, (None, rest)] if rest else found
