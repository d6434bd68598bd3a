"""Requests drafts after each step, and keeps the distributions they were drawn from.

Drafts go to the scheduler, which plans the next step with those that fit.
"""

import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from hookline.engine.worker.input_batch import InputBatch, Int64
from hookline.engine.worker.sampling.sampler import DrawnDrafts
from hookline.step import StepPlan
from hookline_drafting.checking import CheckedDrafts
from hookline_drafting.computed_step import ComputedStep
from hookline_drafting.control import DraftControl
from hookline_drafting.guard import ProposerGuard
from hookline_drafting.proposer import DraftRequest
from hookline_drafting.target import HiddenStates
from hookline_drafting.tree import DraftTree
from hookline_kernels.draft_verification import first_of_each
from hookline_metrics.drafts import DraftUse


class StepDrafts(NamedTuple):
    """The drafts for the next step.

    Attributes:
        token_ids: Drafts by request id; requests without drafts are absent.
        use: What they took.
        flaws: Why what was proposed for a request cannot be drafts, by request id.
    """

    token_ids: dict[int, list[int]]
    use: DraftUse
    flaws: dict[int, str]


class Drafter:
    """Connects the rows of a batch with a guarded proposer."""

    def __init__(
        self,
        guard: ProposerGuard,
        batch: InputBatch,
        control: DraftControl | None = None,
        *,
        has_layers: bool = False,
        tree: DraftTree | None = None,
    ) -> None:
        """Makes the drafter of a batch.

        Args:
            guard: The proposer.
            batch: The batch.
            control: Chooses the number of drafts; None requests the maximum.
            has_layers: Whether the proposer has attention layers: it then gets each
                request's KV blocks, and every computed position.
            tree: The tree of drafts; it is cut to the depth that a request has room
                for. None for chains.
        """
        self._guard = guard
        self._batch = batch
        self._control = control
        self._has_layers = has_layers
        self._tree = tree
        self._drawn: dict[int, CheckedDrafts] = {}

    def remove_request(self, request_id: int) -> None:
        """Forgets a request that left the batch."""
        self._guard.schedule_release([request_id])
        if self._control is not None:
            self._control.remove_request(request_id)
        self._drawn.pop(request_id, None)

    def skips(self, plan: StepPlan) -> bool:
        """Whether no drafts would be requested after this step.

        If so, the step is counted, and `propose` must not be called for it.
        """
        return (
            self._control is not None
            and not plan.drafts
            and not plan.work.prefill_requests
            and self._control.skip_step()
        )

    def propose(
        self,
        rows: Int64,
        step: ComputedStep,
        states: Mapping[int, HiddenStates] | None = None,
    ) -> StepDrafts:
        """Returns drafts for requests that have just got tokens.

        Args:
            rows: [R] distinct rows of these requests.
            step: The step that computed the tokens.
            states: Hidden states of each row of the step, if the proposer needs them;
                also of rows without a new token.
        """
        started = time.perf_counter_ns()
        limits, most = self._limits(rows.tolist(), step)
        requests = [
            request
            for row, limit in [
                *limits,
                *self._rows_without_drafts(rows, limits, states),
            ]
            if (request := self._request(row, limit, states)) is not None
        ]
        found = self._guard.propose(requests) if requests else []
        drafts: dict[int, list[int]] = {}
        flaws: dict[int, str] = {}
        for request, checked in zip(requests, found, strict=True):
            request_id = request.request_id
            if checked.flaw:
                flaws[request_id] = checked.flaw
            if checked.token_ids:
                drafts[request_id] = checked.token_ids
            if checked.probabilities is None:
                self._drawn.pop(request_id, None)
            else:
                self._drawn[request_id] = checked
        ended = time.perf_counter_ns()
        counts = {
            each.request_id: (each.max_drafts, len(drafts.get(each.request_id, ())))
            for each in requests
            if each.max_drafts
        }
        if self._control is not None:
            self._control.record_proposed(counts, ended - started)
        use = DraftUse(ended - started, most, self._guard.take_failures())
        return StepDrafts(drafts, use, flaws)

    def drawn(self, rows: Int64) -> DrawnDrafts | None:
        """Returns the drafts with probabilities that a step verifies, or None.

        Args:
            rows: [S] row of each of its sequences; a request's are adjacent.
        """
        if not self._drawn:
            return None
        sequences, probabilities = [], []
        for indices in np.split(np.arange(len(rows)), first_of_each(rows)[1:]):
            row, count = int(rows[indices[0]]), len(indices) - 1
            known = self._drawn.get(self._batch.request_ids[row])
            params = self._batch.params[row]
            assert params is not None
            # Greedy requests keep the most likely token for any distribution.
            if known is None or not count or params.is_greedy:
                continue
            own, start = known.token_ids[:count], int(self._batch.num_tokens[row])
            drafts = self._batch.token_ids[row, start : start + count]
            if drafts.tolist() == own:  # not another extension's
                assert known.probabilities is not None
                sequences.append(indices)
                probabilities.append(known.probabilities[:count])
        if not sequences:
            return None
        return DrawnDrafts(np.concatenate(sequences), np.concatenate(probabilities))

    def close(self) -> None:
        self._guard.close()

    def _limits(
        self, rows: list[int], step: ComputedStep
    ) -> tuple[list[tuple[int, int]], int]:
        """Returns rows with their maximum of drafts, and the overall maximum."""
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

    def _rows_without_drafts(
        self,
        rows: Int64,
        limits: list[tuple[int, int]],
        states: Mapping[int, HiddenStates] | None,
    ) -> list[tuple[int, int]]:
        """Returns rows whose hidden states are passed although no drafts are requested.

        These are prompts, and requests recomputed after a preemption; for a proposer
        with layers, all rows.
        """
        if states is None:
            return []
        has_token, chosen = set(rows.tolist()), {row for row, _ in limits}
        return [
            (row, 0)
            for row, hidden in states.items()
            if row not in chosen
            and (
                self._has_layers
                or row not in has_token
                or hidden.start < self._batch.num_prompt_tokens[row]
            )
            and (params := self._batch.params[row]) is not None
            and params.speculation
        ]

    def _request(
        self, row: int, limit: int, states: Mapping[int, HiddenStates] | None
    ) -> DraftRequest | None:
        """Returns the proposer's request for a row; None to leave the row out."""
        batch = self._batch
        params = batch.params[row]
        assert params is not None
        num_tokens, room = int(batch.num_tokens[row]), batch.room_for_drafts(row)
        # A proposer with layers writes its keys and values even so: other requests may
        # reuse these blocks.
        if room < 1 and not self._has_layers:
            return None
        if self._tree is not None:
            places = batch.token_ids.shape[1] - num_tokens
            room = min(self._tree.num_within(room), places)
        return DraftRequest(
            request_id=batch.request_ids[row],
            token_ids=batch.shown_token_ids[row, :num_tokens],
            max_drafts=max(0, min(limit, room)),
            params=params,
            hidden_states=None if states is None else states[row],
            block_ids=batch.block_ids(row) if self._has_layers else None,
        )
