"""Gathers one step's `IterationStats` while the step's output is taken in."""

from hookline.engine.timeline import Timeline
from hookline.stats import FinishedGroup, FinishedRequest, IterationStats


class IterationBuilder:
    """Adds up what one output brings."""

    def __init__(self) -> None:
        self._computed = self._local = self._external = 0
        self._generated = 0
        self.preemptions = 0
        self.recomputed_tokens = 0
        self._ttft: list[float] = []
        self._inter_token: list[tuple[float, int]] = []
        self.finished: list[FinishedRequest] = []
        self.finished_groups: list[FinishedGroup] = []

    def first_token(self, timeline: Timeline, prompt_tokens: int) -> None:
        """Counts the prompt and the time to its first token."""
        local, external = timeline.local_cached_tokens, timeline.external_cached_tokens
        self._computed += prompt_tokens - local - external
        self._local += local
        self._external += external
        if (seconds := timeline.ttft_seconds) is not None:
            self._ttft.append(seconds)

    def generated(self, tokens: int, interval: float | None) -> None:
        """Counts tokens; the interval since the last ones is shared among them."""
        self._generated += tokens
        if interval is not None and tokens:
            self._inter_token.append((interval / tokens, tokens))

    def build(self) -> IterationStats:
        return IterationStats(
            prompt_tokens_computed=self._computed,
            prompt_tokens_local=self._local,
            prompt_tokens_external=self._external,
            generation_tokens=self._generated,
            preemptions=self.preemptions,
            recomputed_tokens=self.recomputed_tokens,
            ttft_seconds=tuple(self._ttft),
            inter_token_seconds=tuple(self._inter_token),
            finished=tuple(self.finished),
            finished_groups=tuple(self.finished_groups),
        )
