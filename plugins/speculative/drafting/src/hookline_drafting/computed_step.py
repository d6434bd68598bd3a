"""Facts of a computed step that draft control needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from hookline.step import StepPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedStep:
    """A step that has just been computed.

    Attributes:
        num_requests: Number of requests in the step.
        has_prompts: Whether it computed prompt tokens.
        outcomes: (verified, accepted) numbers of drafts by request id, for requests
            with drafts.
        nanoseconds: Duration without the proposer's call.
    """

    num_requests: int
    has_prompts: bool = False
    outcomes: Mapping[int, tuple[int, int]]
    nanoseconds: int

    @classmethod
    def of(
        cls, plan: StepPlan, tokens: Mapping[int, Sequence[int]], nanoseconds: int
    ) -> Self:
        """Returns the facts of a plan; `tokens` are the new tokens by request id."""
        return cls(
            num_requests=len(plan.request_ids),
            has_prompts=plan.work.prefill_requests > 0,
            outcomes={
                request_id: (len(drafts), len(tokens[request_id]) - 1)
                for request_id, drafts in plan.drafts.items()
            },
            nanoseconds=nanoseconds,
        )
