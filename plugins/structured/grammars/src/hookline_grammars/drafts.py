"""Fits drafts to grammars, and drafts what grammars force.

A draft that its grammar forbids is never accepted, so it is cut. Where a grammar leaves
no choice of the text, as in the names of a schema's properties, the text is drafted
without asking a proposer ("jump forward"): one step verifies all of it.
"""

from collections.abc import Mapping, Sequence

from hookline.config.extensions import GRAMMARS
from hookline.engine.worker.extension import WorkerStep
from hookline.engine.worker.input_batch import InputBatch
from hookline.step import StepPlan
from hookline_grammars.forced_gain import ForcedGain
from hookline_grammars.forced_pace import FIRST_FORCED, ForcedPace
from hookline_grammars.masks import GrammarMasks
from hookline_kernels.draft_verification import first_of_each


class GrammarDrafts:
    """Changes the drafts of requests with grammars, after the proposer's call."""

    def __init__(
        self, grammars: GrammarMasks, batch: InputBatch, *, changes: bool
    ) -> None:
        """Fits the drafts of others, if there are any.

        Args:
            grammars: Follows the grammars.
            batch: The batch.
            changes: Whether drafts can be changed and verified; if not, only the use of
                grammars is reported.
        """
        self._grammars = grammars
        self._batch = batch
        self._changes = changes
        self._forced: dict[int, int] = {}
        self._paces: dict[int, ForcedPace] = {}
        self._usual = FIRST_FORCED
        self._gain = ForcedGain()

    def fit(self, step: WorkerStep) -> None:
        """Makes a step's drafts those that should be verified, and tells its use."""
        forced_before, self._forced = self._forced, {}
        accepted = _accepted(forced_before, step.plan, step.tokens)
        num_accepted = sum(accepted.values())
        step.sections[GRAMMARS] = self._grammars.take_use(num_accepted)
        if accepted:
            drafted = sum(forced_before[request_id] for request_id in accepted)
            self._gain.verified(num_accepted, drafted)
        if not self._changes:
            return
        for request_id, count in accepted.items():
            pace = self._paces[request_id]
            pace.verified(count, forced_before[request_id])
            self._usual = pace.most
        token_ids = dict(step.drafts)
        paces, self._paces = self._paces, {}
        assert step.rows is not None, "tokens were sampled"
        own_rows = step.rows[first_of_each(step.rows)].tolist()
        for row in own_rows:
            params, request_id = self._batch.params[row], self._batch.request_ids[row]
            if row not in self._grammars.rows or params is None:
                continue
            proposed = token_ids.pop(request_id, [])
            if not params.speculation:
                continue
            pace = paces.get(request_id) or ForcedPace(self._usual)
            self._paces[request_id] = pace
            if chosen := self._fitted(row, proposed, pace):
                token_ids[request_id] = chosen
        if not (step.drafts or self._pays(len(own_rows))):
            token_ids, self._forced = {}, {}
        step.drafts = token_ids

    def _fitted(self, row: int, proposed: list[int], pace: ForcedPace) -> list[int]:
        """Returns the drafts of one request, which may be none."""
        may_force = self._grammars.may_force(row) and not pace.is_pausing()
        if not (proposed or may_force):
            return []
        request_id = self._batch.request_ids[row]
        text = self._batch.token_ids[row, : self._batch.num_tokens[row]]
        forced, chosen = self._grammars.fit(row, text, proposed, pace.most)
        if forced:
            self._forced[request_id] = forced
        return chosen[: max(0, self._batch.room_for_drafts(row))]

    def _pays(self, requests: int) -> bool:
        """Returns whether a step of so many requests should verify forced drafts."""
        drafted = sum(self._forced.values())
        return not drafted or self._gain.pays(drafted, requests)


def _accepted(
    forced: Mapping[int, int], plan: StepPlan, tokens: Mapping[int, Sequence[int]]
) -> dict[int, int]:
    """Returns how many of its forced drafts a step has accepted, by request id."""
    return {
        request_id: min(forced[request_id], len(drafts), len(tokens[request_id]) - 1)
        for request_id, drafts in plan.drafts.items()
        if request_id in forced and tokens.get(request_id)
    }
