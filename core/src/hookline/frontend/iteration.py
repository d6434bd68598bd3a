"""Builds the `IterationStats` of one output."""

from hookline.clock import NANOSECONDS
from hookline.frontend.request_account import RequestAccount
from hookline.sections import NO_SECTIONS, Sections
from hookline.stats.finished_request import FinishedGroup, FinishedRequest
from hookline.stats.iteration_stats import FirstScheduled, FirstToken, IterationStats
from hookline.stats.step_work import BlockEviction


class IterationBuilder:
    """Sums up the events of one output."""

    def __init__(self, sections: Sections = NO_SECTIONS) -> None:
        self._computed = self._local = self._external = 0
        self._generated = 0
        self.preemptions = 0
        self.recomputed_tokens = 0
        self._first_scheduled: list[FirstScheduled] = []
        self._first_tokens: list[FirstToken] = []
        # Requests that decode together share an interval: few keys, not hundreds.
        self._inter_token: dict[tuple[int, int], int] = {}
        self.finished: list[FinishedRequest] = []
        self.finished_groups: list[FinishedGroup] = []
        self.evictions: list[BlockEviction] = []
        self._sections = sections

    def first_scheduled(self, account: RequestAccount) -> None:
        """Notes how long a request has waited for the engine."""
        facts = account.request.facts
        if (seconds := account.timeline.queue_seconds) is not None:
            self._first_scheduled.append(
                FirstScheduled(
                    queue_seconds=seconds,
                    trace_id=facts.trace_id,
                    span_id=facts.span_id,
                )
            )

    def first_token(self, account: RequestAccount) -> None:
        """Counts a request's prompt and the time to its first token."""
        self.prompt(account)
        facts, timeline = account.request.facts, account.timeline
        if (seconds := timeline.ttft_seconds) is not None:
            self._first_tokens.append(
                FirstToken(
                    seconds=seconds,
                    prefill_seconds=timeline.prefill_seconds,
                    is_streamed=account.is_streamed,
                    trace_id=facts.trace_id,
                    span_id=facts.span_id,
                )
            )

    def prompt(self, account: RequestAccount) -> None:
        """Counts a request's prompt once it is computed."""
        timeline = account.timeline
        local, external = timeline.local_cached_tokens, timeline.external_cached_tokens
        self._computed += account.prompt_tokens - local - external
        self._local += local
        self._external += external

    def generated(self, tokens: int, interval: int | None) -> None:
        """Counts a request's new tokens, which share the time since the last, in ns."""
        self._generated += tokens
        if interval is not None and tokens:
            key = (interval, tokens)
            self._inter_token[key] = self._inter_token.get(key, 0) + tokens

    def build(self) -> IterationStats:
        return IterationStats(
            prompt_tokens_computed=self._computed,
            prompt_tokens_local=self._local,
            prompt_tokens_external=self._external,
            generation_tokens=self._generated,
            preemptions=self.preemptions,
            recomputed_tokens=self.recomputed_tokens,
            first_scheduled=tuple(self._first_scheduled),
            first_tokens=tuple(self._first_tokens),
            inter_token_seconds=tuple(
                (interval / NANOSECONDS / tokens, count)
                for (interval, tokens), count in self._inter_token.items()
            ),
            finished=tuple(self.finished),
            finished_groups=tuple(self.finished_groups),
            evictions=tuple(self.evictions),
            sections=self._sections,
        )
