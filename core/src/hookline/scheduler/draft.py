"""A step plan in the making: what was given out, and what may be taken back."""

from collections.abc import Sequence

from hookline.request import Request
from hookline.scheduler.plan import AdmittedSequence, StepPlan

Entry = tuple[Request, int, Sequence[int]]
"""(request, tokens to compute, blocks added)."""


class Draft:
    """Requests with the tokens and blocks they were given, under one token budget.

    Attributes:
        budget: Tokens that are left to give.
        entries: What was given to whom.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.entries: list[Entry] = []
        self._admitted: list[Request] = []

    def add(self, request: Request, num_tokens: int, blocks: Sequence[int]) -> None:
        self.entries.append((request, num_tokens, blocks))
        self.budget -= num_tokens

    def admit(self, request: Request, num_tokens: int) -> None:
        self.add(request, num_tokens, ())
        self._admitted.append(request)

    def drop(self, request: Request) -> None:
        """Takes back what was given to a request that is preempted after all."""
        for index, (scheduled, num_tokens, _) in enumerate(self.entries):
            if scheduled is request:
                del self.entries[index]
                self.budget += num_tokens
                return

    def plan(self, step: int, released: Sequence[int]) -> StepPlan:
        self.entries.sort(key=lambda entry: entry[1] > 1)
        prefills = [tokens for request, tokens, _ in self.entries if _computes(request)]
        context = sum(request.num_computed_tokens for request, _, _ in self.entries)
        return StepPlan(
            step=step,
            released=released,
            admitted=[_admission(request) for request in self._admitted],
            request_ids=[request.request_id for request, _, _ in self.entries],
            num_tokens=[num_tokens for _, num_tokens, _ in self.entries],
            new_block_ids={
                request.request_id: blocks
                for request, _, blocks in self.entries
                if blocks
            },
            context_tokens=context,
            attention_pairs=_attention_pairs(self.entries, context),
            prefill_requests=len(prefills),
            prefill_tokens=sum(prefills),
        )


def _computes(request: Request) -> bool:
    """Whether the step computes prompt or recomputed tokens of the request."""
    computed = request.num_computed_tokens
    return computed < request.num_prompt_tokens or request.is_prefilling


def _attention_pairs(entries: Sequence[Entry], context_tokens: int) -> int:
    """Sum of q·c + q(q+1)/2: c + 1 for the single tokens, which come first."""
    pairs = context_tokens + len(entries)
    for request, count, _ in reversed(entries):
        if count == 1:
            break
        computed = request.num_computed_tokens
        pairs += (count - 1) * computed + count * (count + 1) // 2 - 1
    return pairs


def _admission(request: Request) -> AdmittedSequence:
    """With its own lists: the request's may grow before the step is computed."""
    return AdmittedSequence(
        request_id=request.request_id,
        token_ids=list(request.token_ids),
        num_prompt_tokens=request.num_prompt_tokens,
        num_computed_tokens=request.num_computed_tokens,
        block_ids=list(request.block_ids),
        params=request.params,
        eos_token_ids=tuple(request.stop_token_ids),
        bad_words_token_ids=request.inner.bad_words_token_ids,
    )
