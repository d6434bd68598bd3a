"""Drafting where no model computes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hookline.clock import Clock
from hookline.config.extensions import DRAFTING
from hookline_drafting.computed_step import ComputedStep
from hookline_drafting.control import DraftControl
from hookline_drafting.guard import ProposerGuard
from hookline_drafting.proposer import DraftRequest
from hookline_drafting.sections import DraftedStep
from hookline_metrics.drafts import DraftUse

if TYPE_CHECKING:  # only the executor `simulated` needs it
    from hookline_simulated.simulation import SimulatedStep


class SimulatedDrafting:
    """Asks a proposer for drafts after each simulated step."""

    def __init__(
        self,
        guard: ProposerGuard,
        control: DraftControl | None,
        clock: Clock,
        *,
        max_model_len: int,
    ) -> None:
        """Makes it.

        Args:
            guard: The proposer.
            control: Chooses the number of drafts; None always takes the maximum.
            clock: Clock of the simulation.
            max_model_len: Maximum number of tokens of a request.
        """
        self._guard, self._control, self._clock = guard, control, clock
        self._max_model_len = max_model_len

    def __call__(self, step: "SimulatedStep") -> None:
        """Implements `FollowSimulation`."""
        for request_id in step.plan.released:
            self._guard.schedule_release([request_id])
            if self._control is not None:
                self._control.remove_request(request_id)
        started = self._clock.now()
        step.drafts = self._propose(step)
        most = self._guard.num_speculative_tokens
        use = DraftUse(
            draft_ns=self._clock.now() - started,
            most_drafts=most if self._control is None else self._control.num_drafts,
            proposer_failures=self._guard.take_failures(),
        )
        step.sections[DRAFTING] = DraftedStep(use)

    def _propose(self, step: "SimulatedStep") -> dict[int, list[int]]:
        """Returns drafts by request id, for requests that have just got tokens."""
        request_ids = [
            each for each in step.tokens if step.sequences[each].params.speculation
        ]
        limits = [self._guard.num_speculative_tokens] * len(request_ids)
        if self._control is not None:
            facts = ComputedStep.of(step.plan, step.tokens, step.step_ns)
            self._control.observe(facts)
            limits = self._control.choose(request_ids, len(step.tokens))
        requests = [
            DraftRequest(
                request_id=request_id,
                token_ids=_read_only(step.texts[request_id]),
                max_drafts=limit,
                params=step.sequences[request_id].params,
            )
            for request_id, limit in zip(request_ids, limits, strict=True)
            if limit
        ]
        if not requests:
            return {}
        proposed_at = self._clock.now()
        found = self._guard.propose(requests)
        drafts = {
            request.request_id: checked.token_ids
            for request, checked in zip(requests, found, strict=True)
        }
        if self._control is not None:
            counts = {
                each.request_id: (each.max_drafts, len(drafts[each.request_id]))
                for each in requests
            }
            self._control.record_proposed(counts, self._clock.now() - proposed_at)
        fitting = {
            request_id: tokens[: max(0, self._room(step, request_id))]
            for request_id, tokens in drafts.items()
        }
        return {request_id: tokens for request_id, tokens in fitting.items() if tokens}

    def _room(self, step: "SimulatedStep", request_id: int) -> int:
        """Returns how many drafts can be of use; a step adds one token to them."""
        sequence, end = step.sequences[request_id], self._max_model_len
        if (most := sequence.params.max_tokens) is not None:
            end = min(end, sequence.num_prompt_tokens + most)
        return end - len(step.texts[request_id]) - 1


def _read_only(token_ids: Sequence[int]) -> npt.NDArray[np.int32]:
    """Returns an array over memory that cannot be made writable."""
    return np.frombuffer(np.array(token_ids, np.int32).tobytes(), np.int32)
