"""Processes a step's result: new tokens and ends of requests.

Stop strings are found in the front end, where the text is.
"""

from hookline.engine.scheduler.lifecycle import RequestLifecycle
from hookline.events import NO_DRAFTS, NewTokens, VerifiedDrafts
from hookline.finish_cause import Corrupted, FinishCause, LengthReached, StoppedByToken
from hookline.request import Origin, Request, RequestStatus
from hookline.sections import NO_SECTIONS, Sections
from hookline.step import StepResult


class ResultUpdate:
    """Changes requests by what the executor has computed for them."""

    def __init__(self, lifecycle: RequestLifecycle) -> None:
        self._lifecycle, self._cache = lifecycle, lifecycle.cache
        self._outcomes: list[tuple[int, int]] = []

    def update(self, result: StepResult, now: int) -> tuple[Sections, VerifiedDrafts]:
        """Appends the new tokens and ends the requests that they end.

        Tokens of requests that have ended since the step was planned are dropped.

        Returns:
            What extensions add to the step's record, and how many drafts were accepted.
        """
        sections = NO_SECTIONS
        if result.sections:
            sections = self._lifecycle.extensions.updated(result.sections, now)
        requests = self._lifecycle.requests
        for request_id, cause in result.failed.items():
            if (request := requests.get(request_id)) is not None:
                self._fail(request, cause, now)
        if result.logprobs.prompts:
            self._keep_prompt_logprobs(result)
        for request_id, token_ids in result.tokens.items():
            request = requests.get(request_id)
            if request is None:
                self._lifecycle.ledger.discarded_tokens += len(token_ids)
            elif request.num_doomed_results:
                self._lifecycle.ledger.discarded_tokens += len(token_ids)
                request.num_doomed_results -= 1
            else:
                self._append(request, token_ids, result, now)
        if result.drafts:
            self._keep_drafts(result)
        if not self._outcomes:
            return sections, NO_DRAFTS
        verified, self._outcomes = VerifiedDrafts.of(self._outcomes), []
        return sections, verified

    def _fail(self, request: Request, cause: FinishCause, now: int) -> None:
        """Ends a request, or notes that it is served although it is corrupted."""
        if isinstance(cause, Corrupted):
            if cause.origin is Origin.MODEL:
                self._cache.distrust(request)
            if cause.is_served:
                request.corrupted_by = request.corrupted_by or cause.origin
                return
        self._lifecycle.finish_request(request, cause, now)

    def _keep_drafts(self, result: StepResult) -> None:
        """Keeps the drafts of running requests for their next steps."""
        for request_id, drafts in result.drafts.items():
            request = self._lifecycle.requests.get(request_id)
            if request is not None and request.status is RequestStatus.RUNNING:
                self._lifecycle.drafts[request_id] = drafts

    def _append(
        self, request: Request, token_ids: list[int], result: StepResult, now: int
    ) -> None:
        """Gives a request its new tokens, and ends it if they end it."""
        is_first = request.num_output_tokens == 0
        request.num_pending_tokens -= 1
        kept, cause = _stop_after(request, token_ids)
        if request.status is RequestStatus.RUNNING:
            request.token_ids += kept
        else:  # preempted since; it is recomputed with this token
            self._lifecycle.queues.waiting.lengthen(request, kept)
        self._lifecycle.ledger.sampled_tokens += len(kept)
        if (fair := self._lifecycle.queues.fair) is not None:
            fair.served_output(request, len(kept))
        logprobs = result.logprobs.new_tokens.get(request.request_id)
        num_drafts, num_accepted = request.num_drafts, 0
        if num_drafts:
            num_accepted = self._accept(request, len(token_ids) - 1, len(kept))
        shown = None if logprobs is None else logprobs[: len(kept)]
        prompt = request.prompt_logprobs if is_first else None
        event = NewTokens(
            request.request_id, now, kept, shown, prompt, num_drafts, num_accepted
        )
        self._lifecycle.events.new_tokens.append(event)
        if cause is not None:
            self._lifecycle.finish_request(request, cause, now)

    def complete(
        self, request_id: int, cause: FinishCause, sections: Sections, now: int
    ) -> None:
        """Ends a request whose prompt was all there was, unless its KV was wrong."""
        if (request := self._lifecycle.requests.get(request_id)) is None:
            return
        if request.num_doomed_results:
            request.num_doomed_results -= 1
            return
        self._lifecycle.finish_request(request, cause, now, sections)

    def _accept(self, request: Request, num_accepted: int, num_kept: int) -> int:
        """Counts the accepted drafts as computed; frees what only others used.

        Returns:
            How many of them the request keeps.
        """
        request.num_computed_tokens += num_kept - 1
        request.max_computed_tokens = max(
            request.num_computed_tokens, request.max_computed_tokens
        )
        self._cache.trim(request)
        num_given = min(num_accepted, num_kept)
        self._outcomes.append((request.num_drafts, num_given))
        request.num_drafts = 0
        return num_given

    def _keep_prompt_logprobs(self, result: StepResult) -> None:
        """Collects them until the first token, with which they are sent.

        Those of a prompt that was preempted before its last chunk are recomputed.
        """
        for request_id, entries in result.logprobs.prompts.items():
            request = self._lifecycle.requests.get(request_id)
            if request is None or request.num_output_tokens:
                continue
            if request.status is RequestStatus.RUNNING or request.num_pending_tokens:
                request.prompt_logprobs += entries


def _stop_after(
    request: Request, token_ids: list[int]
) -> tuple[list[int], FinishCause | None]:
    """Cuts new tokens after the first that ends the request.

    Returns:
        The tokens to keep, and why the request ends with them; None if it goes on.
    """
    output, params = request.num_output_tokens, request.params
    for count, token_id in enumerate(token_ids, output + 1):
        # Sampled before `min_tokens` only if the grammar allows nothing else.
        if token_id in request.stop_token_ids and (
            count >= params.min_tokens or params.structured_outputs is not None
        ):
            return token_ids[: count - output], StoppedByToken(token_id)
        if count >= request.max_tokens:
            return token_ids[: count - output], LengthReached()
    return token_ids, None
