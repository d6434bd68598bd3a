"""Asks for drafts once a step's tokens are known, and keeps what verifying them takes.

Drafts travel to the scheduler, which has those verified that fit into the next step.
The distributions that they were drawn from stay here.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hookline.spec_decode.proposer import DraftRequest
from hookline.spec_decode.target import HiddenStates
from hookline.spec_decode.tree import DraftTree
from hookline.step.plan import StepPlan
from hookline.worker.drafting.computed_step import ComputedStep
from hookline.worker.drafting.control import DraftControl
from hookline.worker.drafting.guard import ProposerGuard
from hookline.worker.drafting.verification import first_of_each
from hookline.worker.input_batch import InputBatch, Int64
from hookline.worker.sampling.sampler import DrawnDrafts

Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class StepDrafts:
    """What came of asking.

    Attributes:
        token_ids: By request id, of requests that have drafts.
        nanoseconds: That it took.
        most_drafts: Of a request, that it may be asked for at present.
        failures: Of the proposer since the last step, by cause.
    """

    token_ids: dict[int, list[int]] = field(default_factory=dict)
    nanoseconds: int = 0
    most_drafts: int = 0
    failures: dict[str, int] = field(default_factory=dict)


class Drafter:
    """Between the rows of a batch and a guarded proposer."""

    def __init__(
        self,
        guard: ProposerGuard,
        batch: InputBatch,
        control: DraftControl | None = None,
        *,
        tells_blocks: bool = False,
        tree: DraftTree | None = None,
    ) -> None:
        """Asks for as many drafts as a control says, or for all there may be.

        Of a tree, for those that are not too deep for what may still be said.

        With `tells_blocks` the proposer is told each request's KV blocks, and shown all
        that is computed, for it keeps something of each position.
        """
        self._guard = guard
        self._batch = batch
        self._control = control
        self._tells_blocks = tells_blocks
        self._tree = tree
        self._drawn: dict[int, Float32] = {}

    def release(self, request_id: int) -> None:
        """Forgets a request that left the batch."""
        self._guard.release([request_id])
        if self._control is not None:
            self._control.release(request_id)
        self._drawn.pop(request_id, None)

    def rests(self, plan: StepPlan) -> bool:
        """Whether nothing would come of proposing after this step."""
        return (
            self._control is not None
            and not plan.drafts
            and not plan.prefill_requests
            and self._control.rests()
        )

    def propose(
        self,
        rows: Int64,
        step: ComputedStep,
        states: Mapping[int, HiddenStates] | None = None,
    ) -> StepDrafts:
        """Drafts for the requests of these rows, which have just got tokens.

        Args:
            rows: [R], none twice.
            step: That brought them.
            states: Where the proposer wants hidden states, those of each row of the
                step; rows that got no token are shown to it, too.
        """
        started = time.perf_counter_ns()
        limits, most = self._limits(rows.tolist(), step)
        requests = [
            request
            for row, limit in [*limits, *self._shown(rows, limits, states)]
            if (request := self._request(row, limit, states)) is not None
        ]
        found = self._guard.propose(requests) if requests else []
        drafts: dict[int, list[int]] = {}
        for request, checked in zip(requests, found, strict=True):
            request_id = request.request_id
            if checked.token_ids:
                drafts[request_id] = checked.token_ids
            if checked.probabilities is None:
                self._drawn.pop(request_id, None)
            else:
                self._drawn[request_id] = checked.probabilities
        ended = time.perf_counter_ns()
        counts = {
            each.request_id: (each.max_drafts, len(drafts.get(each.request_id, ())))
            for each in requests
            if each.max_drafts
        }
        if self._control is not None:
            self._control.proposed(counts, ended - started)
        return StepDrafts(drafts, ended - started, most, self._guard.take_failures())

    def drawn(self, rows: Int64) -> DrawnDrafts | None:
        """The drafts with probabilities among those that a step verifies.

        Args:
            rows: [S] of its sequences, those of a request one after another.
        """
        if not self._drawn:
            return None
        sequences, probabilities = [], []
        for indices in np.split(np.arange(len(rows)), first_of_each(rows)[1:]):
            row = int(rows[indices[0]])
            known = self._drawn.get(self._batch.request_ids[row])
            params = self._batch.params[row]
            assert params is not None
            # Of a greedy request the likeliest token is right, whatever was drawn from.
            if known is not None and len(indices) > 1 and not params.is_greedy:
                sequences.append(indices)
                probabilities.append(known[: len(indices) - 1])
        if not sequences:
            return None
        return DrawnDrafts(np.concatenate(sequences), np.concatenate(probabilities))

    def close(self) -> None:
        self._guard.close()

    def _limits(
        self, rows: list[int], step: ComputedStep
    ) -> tuple[list[tuple[int, int]], int]:
        """Rows with how many drafts each may have; and how many one may at present."""
        batch = self._batch
        rows_with = [
            row
            for row in rows
            if (params := batch.params[row]) is not None and params.speculation
        ]
        most = self._guard.num_speculative_tokens
        if (control := self._control) is None:
            return [(row, most) for row in rows_with], most
        control.observe(step)
        limits = control.choose(
            [batch.request_ids[row] for row in rows_with], len(rows)
        )
        chosen = zip(rows_with, limits, strict=True)
        return [(row, limit) for row, limit in chosen if limit], control.num_drafts

    def _shown(
        self,
        rows: Int64,
        limits: list[tuple[int, int]],
        states: Mapping[int, HiddenStates] | None,
    ) -> list[tuple[int, int]]:
        """Rows whose states are shown though nothing is drafted for them.

        Those of prompts, and of requests that are computed again after a preemption;
        for a proposer with layers of its own, all.
        """
        if states is None:
            return []
        has_token, chosen = set(rows.tolist()), {row for row, _ in limits}
        return [
            (row, 0)
            for row, told in states.items()
            if row not in chosen
            and (
                self._tells_blocks
                or row not in has_token
                or told.start < self._batch.num_prompt_tokens[row]
            )
            and (params := self._batch.params[row]) is not None
            and params.speculation
        ]

    def _request(
        self, row: int, limit: int, states: Mapping[int, HiddenStates] | None
    ) -> DraftRequest | None:
        """What the proposer is told; None if it needs not be."""
        batch = self._batch
        params = batch.params[row]
        assert params is not None
        num_tokens = int(batch.num_tokens[row])
        end = batch.token_ids.shape[1]
        if params.max_tokens is not None:
            end = min(end, int(batch.num_prompt_tokens[row]) + params.max_tokens)
        # The step that verifies them brings one token more.
        room = end - num_tokens - 1
        # Its blocks may be found by others, who will want what a proposer keeps there.
        if room < 1 and not self._tells_blocks:
            return None
        if self._tree is not None:
            room = self._tree.num_within(room)
        token_ids = batch.token_ids[row, :num_tokens]
        token_ids.flags.writeable = False
        return DraftRequest(
            request_id=batch.request_ids[row],
            token_ids=token_ids,
            max_drafts=max(0, min(limit, room)),
            params=params,
            hidden_states=None if states is None else states[row],
            block_ids=batch.block_ids(row) if self._tells_blocks else None,
        )
