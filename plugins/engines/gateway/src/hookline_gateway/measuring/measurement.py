"""What the answer to one request has told, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from hookline.finish_cause import (
    Aborted,
    Failed,
    FinishCause,
    LengthReached,
    Rejected,
    StoppedByString,
)
from hookline_gateway.measuring.answer_reading import Found

_LENGTHS = frozenset({"length", "max_tokens", "incomplete"})


@dataclass(frozen=True, slots=True)
class Measurement:
    """Numbers of one answer.

    Attributes:
        prompt_tokens: Number of prompt tokens; None if it does not say.
        cached_tokens: Number of these that a cache had.
        output_tokens: Number of generated tokens; None if it does not say.
        last_at: When the last token came, in ns; None if it was no stream.
        intervals: Seconds per token after the first, and the number of these tokens.
    """

    prompt_tokens: int | None = None
    cached_tokens: int = 0
    output_tokens: int | None = None
    last_at: int | None = None
    intervals: Sequence[tuple[float, int]] = ()

    @property
    def has_tokens(self) -> bool:
        """Whether the numbers of tokens are known."""
        return self.output_tokens is not None


NOTHING = Measurement()


def refused_by(status: int) -> FinishCause:
    """Returns why a request ended that the upstream has not served."""
    text = f"the upstream answered {status}"
    if status in range(400, 500):
        return Rejected(kind=f"upstream_{status}", message=text)
    return Failed(text)


def cause_of(found: Found, *, is_stream: bool) -> FinishCause:
    """Returns why a request ended whose answer was passed on to its last byte."""
    if found.error:
        return Failed(found.error)
    if found.finish_reason in _LENGTHS:
        return LengthReached()
    if found.finish_reason == "abort":
        return Aborted("upstream")
    if is_stream and not (found.finish_reason or found.is_complete):
        return Failed("the upstream's stream had no end")
    return StoppedByString("")
