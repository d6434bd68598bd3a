"""Asks for drafts once a step's tokens are known, and keeps what verifying them takes.

Drafts travel to the scheduler, which has those verified that fit into the next step.
The distributions that they were drawn from stay here.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hookline.spec_decode.guard import ProposerGuard
from hookline.spec_decode.proposer import DraftRequest
from hookline.spec_decode.target import HiddenStates
from hookline.worker.input_batch import InputBatch, Int64
from hookline.worker.sampler import DrawnDrafts
from hookline.worker.verification import first_of_each

Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class StepDrafts:
    """What came of asking.

    Attributes:
        token_ids: By request id, of requests that have drafts.
        nanoseconds: That it took.
        failures: Of the proposer since the last step, by cause.
    """

    token_ids: dict[int, list[int]] = field(default_factory=dict)
    nanoseconds: int = 0
    failures: dict[str, int] = field(default_factory=dict)


class Drafter:
    """Between the rows of a batch and a guarded proposer."""

    def __init__(
        self, guard: ProposerGuard, batch: InputBatch, *, tells_blocks: bool = False
    ) -> None:
        """With `tells_blocks` the proposer is told each request's KV blocks."""
        self._guard = guard
        self._batch = batch
        self._tells_blocks = tells_blocks
        self._drawn: dict[int, Float32] = {}

    def release(self, request_id: int) -> None:
        """Forgets a request that left the batch."""
        self._guard.release([request_id])
        self._drawn.pop(request_id, None)

    def propose(
        self, rows: Int64, states: Mapping[int, HiddenStates] | None = None
    ) -> StepDrafts:
        """Drafts for the requests of these rows, which have just got tokens.

        Args:
            rows: [R], none twice.
            states: Where the proposer wants hidden states, those of each row of the
                step; rows that got no token are shown to it, too.
        """
        started = time.perf_counter_ns()
        asked = rows.tolist() if states is None else states
        requests = [
            request
            for row in asked
            if (request := self._request(row, states)) is not None
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
        elapsed = time.perf_counter_ns() - started
        return StepDrafts(drafts, elapsed, self._guard.take_failures())

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

    def _request(
        self, row: int, states: Mapping[int, HiddenStates] | None
    ) -> DraftRequest | None:
        """What the proposer is told; None if it needs not be."""
        batch = self._batch
        params = batch.params[row]
        assert params is not None
        num_tokens = int(batch.num_tokens[row])
        limit = batch.token_ids.shape[1]
        if params.max_tokens is not None:
            limit = min(limit, int(batch.num_prompt_tokens[row]) + params.max_tokens)
        # The step that verifies them brings one token more.
        room = min(self._guard.num_speculative_tokens, limit - num_tokens - 1)
        # Its blocks may be found by others, who will want what a proposer keeps there.
        if not params.speculation or (room < 1 and not self._tells_blocks):
            return None
        token_ids = batch.token_ids[row, :num_tokens]
        token_ids.flags.writeable = False
        is_complete = batch.num_computed[row] == num_tokens - 1
        return DraftRequest(
            request_id=batch.request_ids[row],
            token_ids=token_ids,
            max_drafts=max(0, room) if is_complete else 0,
            params=params,
            hidden_states=None if states is None else states[row],
            block_ids=batch.block_ids(row) if self._tells_blocks else None,
        )
