"""One answer of a server: when its tokens came, and what follows from that."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hookline_bench.chunk import END, read_chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A request's fate; all times are seconds on one clock.

    Attributes:
        due_at: When it should have been sent.
        sent_at: When it was; later where `--max-concurrency` held it back.
        ended_at: When the stream ended, or the request failed.
        prompt_tokens: As the server says, else as the prompt was made.
        output_tokens: As the server says, else counted.
        times: When each chunk with tokens came.
        counts: How many tokens each of these chunks brought.
        error: Why it failed; None for a success.
    """

    due_at: float
    sent_at: float
    ended_at: float
    prompt_tokens: int
    output_tokens: int = 0
    times: Sequence[float] = ()
    counts: Sequence[int] = ()
    error: str | None = None

    @property
    def ttft(self) -> float:
        """From sending to the first token."""
        return self.times[0] - self.sent_at

    @property
    def latency(self) -> float:
        """From sending to the last token."""
        return self.times[-1] - self.sent_at

    @property
    def tpot(self) -> float | None:
        """Time for each token but the first; None where there is no other."""
        if self.output_tokens <= 1:
            return None
        return (self.latency - self.ttft) / (self.output_tokens - 1)

    def intervals(self) -> Iterator[float]:
        """Inter-token latencies: a gap of k tokens is k equal ones."""
        for number in range(1, len(self.times)):
            count = self.counts[number]
            gap = self.times[number] - self.times[number - 1]
            for _ in range(count):
                yield gap / count


@dataclass(slots=True)
class TokenTimes:
    """The chunks of a stream, as they come.

    Attributes:
        times: Of each chunk with tokens.
        told: How many tokens it brought, where the server tells.
        prompt_tokens: What the server says, if it does.
        completion_tokens: Likewise; the total so far.
    """

    times: list[float] = field(default_factory=list)
    told: list[int | None] = field(default_factory=list)
    prompt_tokens: int | None = None
    completion_tokens: int | None = None

    def take(self, payload: bytes, now: float) -> None:
        """Takes in one event.

        Raises:
            EventStreamError: It is not a chunk, or tells of an error.
        """
        if payload == END:
            return
        chunk = read_chunk(payload)
        told: int | None = None
        if chunk.usage is not None:
            before = self.completion_tokens or 0
            self.prompt_tokens = chunk.usage.prompt_tokens
            self.completion_tokens = chunk.usage.completion_tokens
            if self.completion_tokens is not None:
                told = self.completion_tokens - before
        if not chunk.choices:
            return
        choice = chunk.choices[0]
        if choice.token_ids is not None:
            told = len(choice.token_ids)
        if choice.is_token if told is None else told > 0:
            self.times.append(now)
            self.told.append(told)

    def counts(self) -> list[int]:
        """The tokens of each chunk; see `token_counts`."""
        return token_counts(self.told, self.completion_tokens)


def token_counts(told: Sequence[int | None], total: int | None) -> list[int]:
    """The tokens of each chunk.

    Where the server told them, what it told. Else one each, unless the total is higher:
    then the first brought one, and the rest is spread evenly over the others, so that
    the sum is right.
    """
    chunks = len(told)
    if total is None or total <= chunks or any(each is not None for each in told):
        return [1 if each is None else each for each in told]
    if chunks == 1:
        return [total]
    others, share = chunks - 1, total - 1
    ends = [number * share // others for number in range(chunks)]
    return [1, *(ends[number + 1] - ends[number] for number in range(others))]
