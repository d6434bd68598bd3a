"""What vLLM's threads tell ours, and the bounded queue between them."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from hookline_vllm.shapes import (
    IterationShape,
    OutputShape,
    RequestShape,
    SchedulerShape,
)

if TYPE_CHECKING:  # engine processes of vLLM, which load the plugin, need none of it
    from hookline.payloads import HttpExchange


@dataclass(slots=True, eq=False)
class HttpFacts:
    """What the middleware knows of a request before vLLM makes its own of it.

    Attributes:
        tenant: Value of the tenant's header; None without one.
        trace_headers: W3C trace headers by lower-case name.
        client_id: External id of the first request that came of it.
    """

    tenant: str | None = None
    trace_headers: dict[str, str] = field(default_factory=dict)
    client_id: str = ""


class Added(NamedTuple):
    """A request came; `parent` is the id of one with `n` completions, or None."""

    at: int
    request: RequestShape
    parent: str | None
    n: int
    http: HttpFacts | None


class Outputs(NamedTuple):
    """Outputs of a step were processed; those in `stopped` ended by a stop string.

    `tokens` has a copy of the new tokens of each: for a client that reads slowly, vLLM
    adds those of later steps to the same list.
    """

    at: int
    outputs: Sequence[OutputShape]
    tokens: Sequence[Sequence[int]]
    timestamp: float
    stopped: Sequence[str]


class AbortedIds(NamedTuple):
    """Requests were aborted, given by their internal ids."""

    at: int
    ids: Sequence[str]


class Recorded(NamedTuple):
    """An engine's iteration is over; the outputs before it are its."""

    at: int
    engine: int
    scheduler: SchedulerShape | None
    iteration: IterationShape | None


class Slept(NamedTuple):
    """The engines went to sleep, or woke up if the level is 0."""

    at: int
    level: int


class Refused(NamedTuple):
    """A request was refused before it reached an engine."""

    at: int
    reason: str


class Answered(NamedTuple):
    """An HTTP request was answered."""

    at: int
    exchange: "HttpExchange"


Notice = Added | Outputs | AbortedIds | Recorded | Slept | Refused | Answered


class Inbox:
    """A bounded queue; `put` neither waits nor raises.

    Attributes:
        is_open: Whether anybody takes the notices; else they are not kept.
        dropped: Number of notices that found it full.
    """

    def __init__(self, bound: int = 4096) -> None:
        self._notices: deque[Notice] = deque()
        self._bound = bound
        self.is_open = False
        self.dropped = 0

    def put(self, notice: Notice) -> None:
        if not self.is_open:
            return
        if len(self._notices) >= self._bound:
            self.dropped += 1
            return
        self._notices.append(notice)

    def close(self) -> None:
        """Forgets all: nobody takes it."""
        self.is_open = False
        self._notices.clear()

    def pop(self) -> Notice | None:
        """Returns the oldest notice; None if there is none."""
        try:
            return self._notices.popleft()
        except IndexError:
            return None


now = time.monotonic_ns
