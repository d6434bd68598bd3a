"""What a step tells the control of drafts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from hookline.step.plan import StepPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedStep:
    """A step that has just been computed.

    Attributes:
        num_requests: That it computed tokens of.
        has_prompts: Whether any of these were of prompts.
        outcomes: By request id, of requests with drafts: how many were verified, and
            how many of these accepted.
        nanoseconds: That it took, without asking for drafts.
    """

    num_requests: int
    has_prompts: bool = False
    outcomes: Mapping[int, tuple[int, int]]
    nanoseconds: int

    @classmethod
    def of(
        cls, plan: StepPlan, tokens: Mapping[int, Sequence[int]], nanoseconds: int
    ) -> Self:
        """What came of a plan: `tokens` are the new ones by request id."""
        return cls(
            num_requests=len(plan.request_ids),
            has_prompts=plan.prefill_requests > 0,
            outcomes={
                request_id: (len(drafts), len(tokens[request_id]) - 1)
                for request_id, drafts in plan.drafts.items()
            },
            nanoseconds=nanoseconds,
        )
