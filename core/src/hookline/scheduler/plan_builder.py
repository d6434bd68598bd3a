"""Plans a step: tokens and blocks for requests, and drafts, under one budget."""

from collections.abc import Sequence
from dataclasses import dataclass

from hookline.kv_cache import KVCacheManager
from hookline.request import Request
from hookline.scheduler.ledger import Ledger
from hookline.sections import NO_SECTIONS, Sections
from hookline.stats.step_work import StepWork
from hookline.step import AdmittedSequence, StepPlan


@dataclass(slots=True)
class Entry:
    """A request's part of the plan.

    Attributes:
        request: The request.
        num_tokens: Number of tokens to compute, drafts included.
        blocks: Blocks added to the request's own.
        drafts: Draft tokens to verify.
    """

    request: Request
    num_tokens: int
    blocks: Sequence[int]
    drafts: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """The part of the work that the next batch may take.

    Attributes:
        running: Maximum number of requests that have been in the batch before.
        requests: Maximum number of requests, with those that it admits.
        tokens: Maximum number of tokens, without drafts.
    """

    running: int
    requests: int
    tokens: int


class PlanBuilder:
    """Requests and their parts of the step, under one token budget.

    Attributes:
        budget: Number of tokens left.
        entries: The requests' parts.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.entries: list[Entry] = []
        self._admitted: list[Request] = []

    def add(self, request: Request, num_tokens: int, blocks: Sequence[int]) -> None:
        self.entries.append(Entry(request, num_tokens, blocks))
        self.budget -= num_tokens

    def admit(self, request: Request, num_tokens: int) -> None:
        self.add(request, num_tokens, ())
        request.num_planned_tokens = request.num_tokens
        self._admitted.append(request)

    def add_drafts(
        self, entry: Entry, drafts: Sequence[int], blocks: Sequence[int]
    ) -> None:
        """Adds drafts after the one token that an entry computes."""
        entry.drafts = drafts
        entry.num_tokens += len(drafts)
        entry.blocks = [*entry.blocks, *blocks]
        self.budget -= len(drafts)

    def drop(self, request: Request) -> None:
        """Removes a request that is preempted after all."""
        for index, entry in enumerate(self.entries):
            if entry.request is request:
                del self.entries[index]
                self.budget += entry.num_tokens
                return

    def plan(
        self,
        step: int,
        released: Sequence[int],
        *,
        has_tokens: bool = False,
        sections: Sections = NO_SECTIONS,
    ) -> StepPlan:
        """Returns the plan of all entries.

        Args:
            step: Number of the step.
            released: Requests that have left the batch since the last plan.
            has_tokens: Whether it tells the tokens sampled since the last plan.
            sections: What extensions add.
        """
        entries = self.entries
        entries.sort(key=_kind)
        num_tokens = [each.num_tokens for each in entries]
        prefills = [each.num_tokens for each in entries if _computes(each.request)]
        prefill_tokens = sum(prefills)
        context = sum(each.request.num_computed_tokens for each in entries)
        return StepPlan(
            step=step,
            released=released,
            admitted=[_admission(request) for request in self._admitted],
            request_ids=[each.request.request_id for each in entries],
            num_tokens=num_tokens,
            new_block_ids={
                each.request.request_id: each.blocks for each in entries if each.blocks
            },
            new_token_ids=_new_tokens(entries) if has_tokens else {},
            work=StepWork(
                prefill_requests=len(prefills),
                prefill_tokens=prefill_tokens,
                decode_requests=len(entries) - len(prefills),
                decode_tokens=sum(num_tokens) - prefill_tokens,
                context_tokens=context,
                attention_pairs=_attention_pairs(entries, context),
            ),
            drafts={
                each.request.request_id: list(each.drafts)
                for each in entries
                if each.drafts
            },
            sections=sections,
        )


def plan_drafts(
    drafts: dict[int, list[int]],
    builder: PlanBuilder,
    cache: KVCacheManager,
    max_model_len: int,
) -> None:
    """Gives drafts what the step has left of tokens and free blocks.

    Args:
        drafts: Draft tokens by request id; those of the plan's requests are taken out.
        builder: The plan.
        cache: Allocates their blocks.
        max_model_len: Maximum number of tokens per request.
    """
    for entry in builder.entries:
        request = entry.request
        if (given := drafts.pop(request.request_id, None)) is None:
            continue
        room = min(
            builder.budget,
            max_model_len - request.num_tokens,
            cache.room_for(request) - 1,
        )
        if (count := min(len(given), room)) > 0:
            blocks = cache.allocate_more(request, 1 + count)
            assert blocks is not None
            builder.add_drafts(entry, given[:count], blocks)


def count_planned(entry: Entry, ledger: Ledger, step: int) -> None:
    """Counts a plan's tokens as computed; drafts only once they are accepted."""
    request = entry.request
    request.num_drafts = len(entry.drafts)
    request.last_step = step
    request.num_planned_tokens = request.num_tokens
    before = request.num_computed_tokens
    after = before + entry.num_tokens - request.num_drafts
    again = min(after, request.max_computed_tokens) - before
    ledger.computed_tokens += entry.num_tokens
    ledger.recomputed_tokens += max(0, again)
    request.num_computed_tokens = after
    request.max_computed_tokens = max(after, request.max_computed_tokens)
    if not request.num_missing_tokens:
        request.num_pending_tokens += 1  # the step samples the one that follows


def _kind(entry: Entry) -> tuple[bool, bool]:
    """Sort key of a step: single tokens, then those with drafts, then prompts."""
    return entry.num_tokens - len(entry.drafts) > 1, bool(entry.drafts)


def _new_tokens(entries: Sequence[Entry]) -> dict[int, Sequence[int]]:
    """Tokens that no plan has told yet; an admission tells all of its request's."""
    requests = [each.request for each in entries]
    return {
        request.request_id: request.token_ids[request.num_planned_tokens :]
        for request in requests
        if request.num_planned_tokens < request.num_tokens
    }


def _computes(request: Request) -> bool:
    """Whether the step computes prompt or recomputed tokens of the request."""
    computed = request.num_computed_tokens
    return computed < request.num_prompt_tokens or request.is_prefilling


def _attention_pairs(entries: Sequence[Entry], context_tokens: int) -> int:
    """Sum of q·c + q(q+1)/2, which is c + 1 for a single token."""
    pairs = context_tokens + len(entries)
    for entry in entries:
        if (count := entry.num_tokens) == 1:
            continue
        computed = entry.request.num_computed_tokens
        pairs += (count - 1) * computed + count * (count + 1) // 2 - 1
    return pairs


def _admission(request: Request) -> AdmittedSequence:
    """Copies the request's lists, which may grow before the step is computed."""
    return AdmittedSequence(
        request_id=request.request_id,
        token_ids=list(request.token_ids),
        num_prompt_tokens=request.num_prompt_tokens,
        num_computed_tokens=request.num_computed_tokens,
        block_ids=list(request.block_ids),
        params=request.params,
        eos_token_ids=tuple(request.stop_token_ids),
        bad_words_token_ids=request.inner.bad_words_token_ids,
        completion_index=request.inner.completion_index,
        is_prefill_only=request.inner.is_prefill_only,
        sections=request.sections,
    )
