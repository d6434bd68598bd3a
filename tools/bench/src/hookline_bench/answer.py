"""One response of a server: when its tokens arrived, and the latencies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hookline_bench.chunk import END, read_chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome of a request; all times are seconds on one clock.

    Attributes:
        due_at: Planned time of sending.
        sent_at: Actual time of sending; later if `--max-concurrency` delayed it.
        ended_at: End of the stream, or time of the failure.
        prompt_tokens: As reported by the server, otherwise the planned length.
        output_tokens: As reported by the server, otherwise counted.
        cached_tokens: Prompt tokens from a cache, as reported by the server, or 0.
        times: Arrival of each chunk with tokens.
        counts: Number of tokens in each of these chunks.
        error: Reason of the failure; None if it succeeded.
    """

    due_at: float
    sent_at: float
    ended_at: float
    prompt_tokens: int
    output_tokens: int = 0
    cached_tokens: int = 0
    times: Sequence[float] = ()
    counts: Sequence[int] = ()
    error: str | None = None

    @property
    def ttft(self) -> float:
        """Seconds from sending to the first token."""
        return self.times[0] - self.sent_at

    @property
    def latency(self) -> float:
        """Seconds from sending to the last token."""
        return self.times[-1] - self.sent_at

    @property
    def tpot(self) -> float | None:
        """Mean time per token after the first; None if there is only one."""
        if self.output_tokens <= 1:
            return None
        return (self.latency - self.ttft) / (self.output_tokens - 1)

    def intervals(self) -> Iterator[float]:
        """Inter-token latencies; a gap of k tokens counts as k equal ones."""
        for number in range(1, len(self.times)):
            count = self.counts[number]
            gap = self.times[number] - self.times[number - 1]
            for _ in range(count):
                yield gap / count


@dataclass(slots=True)
class TokenTimes:
    """The chunks of a stream, in the order of arrival.

    Attributes:
        times: Arrival of each chunk with tokens.
        reported: Number of tokens in each chunk, if the server reports it.
        prompt_tokens: As reported by the server, or None.
        completion_tokens: Likewise; the total so far.
        cached_tokens: Prompt tokens from a cache, likewise.
    """

    times: list[float] = field(default_factory=list)
    reported: list[int | None] = field(default_factory=list)
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None

    def take(self, payload: bytes, now: float) -> None:
        """Records one event.

        Raises:
            EventStreamError: It is not a chunk, or reports an error.
        """
        if payload == END:
            return
        chunk = read_chunk(payload)
        count: int | None = None
        if chunk.usage is not None:
            before = self.completion_tokens or 0
            self.prompt_tokens = chunk.usage.prompt_tokens
            self.completion_tokens = chunk.usage.completion_tokens
            if (details := chunk.usage.prompt_tokens_details) is not None:
                self.cached_tokens = details.cached_tokens
            if self.completion_tokens is not None:
                count = self.completion_tokens - before
        if not chunk.choices:
            return
        choice = chunk.choices[0]
        if choice.token_ids is not None:
            count = len(choice.token_ids)
        if choice.is_token if count is None else count > 0:
            self.times.append(now)
            self.reported.append(count)

    def counts(self) -> list[int]:
        """Number of tokens in each chunk; see `token_counts`."""
        return token_counts(self.reported, self.completion_tokens)


def token_counts(reported: Sequence[int | None], total: int | None) -> list[int]:
    """Returns the number of tokens in each chunk.

    Those are reported by the server, or one each. If the total is higher, the first
    chunk counts one and the others share the rest evenly.
    """
    chunks = len(reported)
    if total is None or total <= chunks or any(each is not None for each in reported):
        return [1 if each is None else each for each in reported]
    if chunks == 1:
        return [total]
    others, share = chunks - 1, total - 1
    ends = [number * share // others for number in range(chunks)]
    return [1, *(ends[number + 1] - ends[number] for number in range(others))]
