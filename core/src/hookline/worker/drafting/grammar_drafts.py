"""Fits drafts to grammars, and drafts what grammars force.

A draft that its grammar forbids is never accepted, so it is cut. Where a grammar leaves
no choice of the text, as in the names of a schema's properties, the text is drafted
without asking a proposer ("jump forward"): one step verifies all of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hookline.step.plan import StepPlan
from hookline.worker.drafting.drafter import Drafter, StepDrafts
from hookline.worker.drafting.verification import first_of_each
from hookline.worker.input_batch import InputBatch, Int64
from hookline.worker.sampling.processors.grammar_masks import GrammarMasks

MOST_FORCED = 16
"""Tokens that are drafted at once. The model may spell a text otherwise: then a request
gets as many as it has accepted, and one more, until it accepts all again."""


class GrammarDrafts:
    """Changes the drafts of requests with grammars, after the proposer's call."""

    def __init__(
        self,
        grammars: GrammarMasks,
        batch: InputBatch,
        drafter: Drafter | None,
        *,
        changes: bool,
    ) -> None:
        """Fits drafts of `drafter`, if there is one.

        Args:
            grammars: Follows the grammars.
            batch: The batch.
            drafter: Asks the proposer.
            changes: Whether drafts can be changed and verified; if not, only the use of
                grammars is reported.
        """
        self._grammars = grammars
        self._batch = batch
        self._drafter = drafter
        self._changes = changes
        self._forced: dict[int, int] = {}
        self._limits: dict[int, int] = {}

    def fit(
        self,
        rows: Int64,
        plan: StepPlan,
        tokens: Mapping[int, Sequence[int]],
        drafts: StepDrafts,
    ) -> StepDrafts:
        """Returns the drafts as they should be verified.

        Args:
            rows: [S] rows of requests that have just got tokens; a request's are
                adjacent.
            plan: The step that brought the tokens.
            tokens: The tokens, by request id.
            drafts: The proposer's.
        """
        forced_before, self._forced = self._forced, {}
        accepted = _accepted(forced_before, plan, tokens)
        use = self._grammars.take_use(sum(accepted.values()))
        if not self._changes:
            return replace(drafts, grammar_use=use)
        token_ids = dict(drafts.token_ids)
        limits, self._limits = self._limits, {}
        for row in rows[first_of_each(rows)].tolist():
            params, request_id = self._batch.params[row], self._batch.request_ids[row]
            if row not in self._grammars.rows or params is None:
                continue
            proposed = token_ids.pop(request_id, [])
            if not params.speculation:
                continue
            most = limits.get(request_id, MOST_FORCED)
            if (count := accepted.get(request_id)) is not None:
                is_whole = count == forced_before[request_id]
                most = min(2 * most, MOST_FORCED) if is_whole else count + 1
            self._limits[request_id] = most
            text = self._batch.token_ids[row, : self._batch.num_tokens[row]]
            forced, chosen = self._grammars.fit(row, text, proposed, most)
            if not chosen:
                continue
            token_ids[request_id] = chosen
            if forced:
                self._forced[request_id] = forced
            if self._drafter is not None and chosen != proposed[: len(chosen)]:
                self._drafter.forget(request_id)
        return replace(drafts, token_ids=token_ids, grammar_use=use)


def _accepted(
    forced: Mapping[int, int], plan: StepPlan, tokens: Mapping[int, Sequence[int]]
) -> dict[int, int]:
    """Returns how many of its forced drafts a step has accepted, by request id."""
    return {
        request_id: min(forced[request_id], len(drafts), len(tokens[request_id]) - 1)
        for request_id, drafts in plan.drafts.items()
        if request_id in forced and tokens.get(request_id)
    }
