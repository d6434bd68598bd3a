"""The state of each part of a front end, as `front_end_changed` reports it.

Here are the parts that every front end has; those of servers and of extensions are
where they are counted, in `hookline_metrics.front_end_parts`.
"""

from dataclasses import dataclass
from typing import Literal

from hookline.moved_modules import moved_name


@dataclass(frozen=True, slots=True)
class FrontEndPart:
    """The state of one part of a front end; its counts are totals since the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportStats(FrontEndPart):
    """Messages between a server and its engine processes.

    Attributes:
        dropped: Messages dropped on either side because they had no valid key or could
            not be understood, since the start.
    """

    dropped: int = 0


SleepOperationName = Literal["sleep", "wake_up"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepOperation(FrontEndPart):
    """A call that puts engines to sleep or wakes them up; sent twice.

    Attributes:
        operation: Which of the two.
        in_flight: Number of such calls that engines have not replied to yet.
        seconds: Time from the call to the last engine's reply; None when it begins.
    """

    operation: SleepOperationName
    in_flight: int
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementStats(FrontEndPart):
    """Requests that were sent to engines.

    Attributes:
        requests: Index of an engine, why it was chosen, and the number of requests for
            which it was, since the start.
    """

    requests: tuple[tuple[str, str, int], ...] = ()


def __getattr__(name: str) -> object:
    return moved_name(__name__, name)
