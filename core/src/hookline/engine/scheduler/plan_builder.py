"""Plans a step: tokens and blocks for requests, and drafts, under one budget."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from hookline.engine.kv_cache.manager import KVCacheManager
from hookline.engine.scheduler.request_queues import RequestQueues
from hookline.request import Request
from hookline.sections import Sections
from hookline.stats.step_work import Obstacle, StepWork
from hookline.step import AdmittedSequence, StepPlan


class Entry(msgspec.Struct, eq=False, gc=False):
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


class StepBatches(Protocol):
    """Divides the requests among several steps that are computed at the same time."""

    def share(self, queues: RequestQueues) -> Share:
        """Returns the share of the next step."""

    def order(self, queues: RequestQueues) -> Sequence[Request]:
        """Returns the running requests that it can compute, in order."""

    def started(self, plan: StepPlan) -> None:
        """A step is in flight."""

    def ended(self) -> None:
        """The result of the oldest step, or of a poll, is there."""


class PlanBuilder:
    """Requests and their parts of the step, under one token budget.

    Attributes:
        budget: Number of tokens left.
        entries: The requests' parts.
        admitted: Those of the requests that join the batch.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.entries: list[Entry] = []
        self.admitted: list[Request] = []

    def add(self, request: Request, num_tokens: int, blocks: Sequence[int]) -> None:
        self.entries.append(Entry(request, num_tokens, blocks))
        self.budget -= num_tokens

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
        self, step: int, released: Sequence[int], sections: Sections, obstacle: Obstacle
    ) -> StepPlan:
        """Returns the plan of all entries.

        Args:
            step: Number of the step.
            released: Requests that have left the batch since the last plan.
            sections: What extensions add.
            obstacle: Why no more requests join the batch.
        """
        entries = self.entries
        if any(entry.num_tokens > 1 for entry in entries):
            entries.sort(key=_kind)
        prefills = prefill_tokens = context = pairs = 0
        request_ids, num_tokens = [], []
        blocks: dict[int, Sequence[int]] = {}
        drafts: dict[int, list[int]] = {}
        for entry in entries:
            request, count = entry.request, entry.num_tokens
            request_ids.append(request.request_id)
            num_tokens.append(count)
            if entry.blocks:
                blocks[request.request_id] = entry.blocks
            if entry.drafts:
                drafts[request.request_id] = list(entry.drafts)
            computed = request.num_computed_tokens
            context += computed
            pairs += count * computed + count * (count + 1) // 2
            if computed < request.num_prompt_tokens or request.is_prefilling:
                prefills += 1
                prefill_tokens += count
        work = StepWork(
            prefill_requests=prefills,
            prefill_tokens=prefill_tokens,
            decode_requests=len(entries) - prefills,
            decode_tokens=sum(num_tokens) - prefill_tokens,
            context_tokens=context,
            attention_pairs=pairs,
            obstacle=obstacle,
        )
        return StepPlan(
            step=step,
            released=released,
            admitted=list(map(_admission, self.admitted)),
            request_ids=request_ids,
            num_tokens=num_tokens,
            new_block_ids=blocks,
            work=work,
            drafts=drafts,
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
            max_model_len - len(request.token_ids),
            cache.room_for(request) - 1,
        )
        if (count := min(len(given), room)) > 0:
            blocks = cache.allocate_more(request, 1 + count)
            assert blocks is not None
            builder.add_drafts(entry, given[:count], blocks)


def _kind(entry: Entry) -> tuple[bool, bool]:
    """Sort key of a step: single tokens, then those with drafts, then prompts."""
    return entry.num_tokens - len(entry.drafts) > 1, bool(entry.drafts)


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
