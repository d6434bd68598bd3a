"""Divides the requests among the batches that a pipeline computes at the same time.

Each stage of a pipeline computes another batch, so that all of them have work only if
several batches are in flight. They hold different requests: a request whose newest
token is still on its way cannot be computed further. So no batch takes more than its
share, and chunks of one prompt may follow each other in consecutive batches, since they
need no sampled token.

Stages that sample nothing learn the sampled tokens from the plans.
"""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from hookline.config.checks import refuse_unknown
from hookline.config.extensions import OPTION, PIPELINE
from hookline.engine.scheduler.extension import SchedulerSide
from hookline.engine.scheduler.plan_builder import PlanBuilder, Share
from hookline.engine.scheduler.request_queues import RequestQueues
from hookline.hookspecs import hookimpl
from hookline.payloads import ExtensionContext
from hookline.request import Request
from hookline.sections import Section
from hookline.step import StepPlan

if TYPE_CHECKING:  # it is only read
    from hookline.config.scheduler import SchedulerConfig

LEAST_TOKENS = 256
"""A share is no smaller: products of fewer tokens take nearly as long."""


class NewTokens(msgspec.Struct, frozen=True):
    """The section of a plan.

    Attributes:
        token_ids: Tokens sampled for scheduled requests since the last plan that had
            them, by request id.
    """

    token_ids: dict[int, Sequence[int]]


NEW_TOKENS = Section(PIPELINE, NewTokens)


@hookimpl
def create_extension(context: ExtensionContext) -> object:
    """Makes the extension; `ConfigError` for an option, as it has none."""
    refuse_unknown(PIPELINE, OPTION, context.options, ())
    return PipelineExtension(context)


class PipelineExtension:
    """A pipeline, as the scheduler has to know it."""

    def __init__(self, context: ExtensionContext) -> None:
        self._config = context.config

    def scheduler_side(self) -> SchedulerSide:
        """Implements `SchedulerExtension`."""
        config = self._config
        return PipelineScheduling(config.scheduler, config.num_steps_ahead + 1)


class PipelineScheduling(SchedulerSide):
    """Divides steps among batches, and tells stages what others have sampled."""

    def __init__(self, config: "SchedulerConfig", num_batches: int) -> None:
        """Creates the side.

        Args:
            config: Limits of a step.
            num_batches: Number of batches that requests are divided among.
        """
        self.batches = Pipeline(config, num_batches)
        self._num_told: dict[int, int] = {}

    def plan(self, builder: PlanBuilder) -> NewTokens:
        """Returns tokens that no plan has told yet; an admission tells all."""
        told = self._num_told
        found: dict[int, Sequence[int]] = {}
        for request in builder.admitted:
            told[request.request_id] = len(request.token_ids)
        for entry in builder.entries:
            request = entry.request
            first, end = told[request.request_id], len(request.token_ids)
            if first < end:
                found[request.request_id] = request.token_ids[first:]
                told[request.request_id] = end
        return NewTokens(found)

    def finished(self, request: Request, now: int) -> None:  # noqa: ARG002
        """Forgets a request, which may never have been admitted."""
        self._num_told.pop(request.request_id, None)


class Pipeline:
    """The steps in flight of several batches, and the share of the next one.

    Implements `StepBatches`.
    """

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
        ready = [
            each for each in queues.running.requests if not each.num_pending_tokens
        ]
        ready.sort(key=_longest_waiting_decodes_first)
        return ready

    def share(self, queues: RequestQueues) -> Share:
        """Returns the share of the next batch in all work, that in flight included."""
        limit, budget = self._config.max_num_seqs, self._config.tokens_per_step
        running = len(queues.running.requests)
        admissible = min(limit - running, len(queues.waiting.requests))
        return Share(
            self._part_of(running),
            self._part_of(running + admissible),
            min(budget, max(LEAST_TOKENS, self._tokens_of_a_batch(queues))),
        )

    def _tokens_of_a_batch(self, queues: RequestQueues) -> int:
        if not self._config.enable_chunked_prefill:
            return self._config.tokens_per_step
        missing = sum(each.num_missing_tokens for each in queues.running.requests)
        waiting = queues.waiting.num_tokens
        return self._part_of(sum(self._tokens) + missing + waiting)

    def _part_of(self, total: int) -> int:
        return -(-total // self._num_batches)


def _longest_waiting_decodes_first(request: Request) -> tuple[bool, int]:
    return request.is_prefilling, request.last_step
