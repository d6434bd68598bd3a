"""The result of a probe; imported without the engine."""

from dataclasses import dataclass
from enum import StrEnum


class ProbeOutcome(StrEnum):
    """What became of a probe.

    `token`: it got its token. `busy`: it did not, but the engine ran steps meanwhile.
    `asleep`: the engine sleeps and was not asked. `failed`: neither token nor step.
    """

    TOKEN = "token"  # noqa: S105 - a token of text
    BUSY = "busy"
    ASLEEP = "asleep"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of one engine's probe.

    Attributes:
        engine_index: Index of the engine.
        outcome: What became of it.
        seconds: How long it took.
        detail: Why it failed; otherwise empty.
    """

    engine_index: int
    outcome: ProbeOutcome
    seconds: float
    detail: str = ""
