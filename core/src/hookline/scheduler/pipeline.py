"""Divides the requests among the batches that a pipeline computes at the same time.

Each stage of a pipeline computes another batch, so that all of them have work only if
several batches are in flight. They hold different requests: a request whose newest
token is still on its way cannot be computed further. So no batch takes more than its
share, and chunks of one prompt may follow each other in consecutive batches, since they
need no sampled token.
"""

from collections import deque
from typing import TYPE_CHECKING

from hookline.request import Request
from hookline.scheduler.plan_builder import Share
from hookline.scheduler.request_queues import RequestQueues
from hookline.step import StepPlan

if TYPE_CHECKING:  # it is only read
    from hookline.config.scheduler import SchedulerConfig

LEAST_TOKENS = 256
"""A share is no smaller: products of fewer tokens take nearly as long."""


class Pipeline:
    """The steps in flight of several batches, and the share of the next one."""

    def __init__(self, config: "SchedulerConfig", num_batches: int) -> None:
        """Creates a pipeline without steps in flight.

        Args:
            config: Limits of a step.
            num_batches: Number of batches that requests are divided among.
        """
        self._config = config
        self._num_batches = num_batches
        self._tokens: deque[int] = deque()

    def started(self, plan: StepPlan) -> None:
        """Notes that a step is in flight."""
        self._tokens.append(plan.work.tokens)

    def ended(self) -> None:
        """Notes that the oldest step's result is there; polls are none."""
        if self._tokens:
            self._tokens.popleft()

    def order(self, queues: RequestQueues) -> list[Request]:
        """Returns the running requests that the next step can compute, in order.

        Single tokens come before prompts; among them, requests that have been waiting
        for longest come first.
        """
        ready = [each for each in queues.running if not each.num_pending_tokens]
        ready.sort(key=_longest_waiting_decodes_first)
        return ready

    def share(self, queues: RequestQueues) -> Share:
        """Returns the share of the next batch in all work, that in flight included."""
        limit, budget = self._config.max_num_seqs, self._config.max_num_batched_tokens
        running = len(queues.running)
        admissible = min(limit - running, len(queues.waiting))
        return Share(
            self._part_of(running),
            self._part_of(running + admissible),
            min(budget, max(LEAST_TOKENS, self._tokens_of_a_batch(queues))),
        )

    def _tokens_of_a_batch(self, queues: RequestQueues) -> int:
        if not self._config.enable_chunked_prefill:
            return self._config.max_num_batched_tokens
        missing = sum(each.num_missing_tokens for each in queues.running)
        waiting = queues.waiting.num_tokens
        return self._part_of(sum(self._tokens) + missing + waiting)

    def _part_of(self, total: int) -> int:
        return -(-total // self._num_batches)


def _longest_waiting_decodes_first(request: Request) -> tuple[bool, int]:
    return request.is_prefilling, request.last_step
