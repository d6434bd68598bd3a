"""What happens to an engine in the suite, and what was told of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from hookline.payloads import (
    EngineStarted,
    RequestsFinished,
    StateChanged,
    StepFinished,
)
from hookline.request import FinishReason
from hookline.stats.finished_request import FinishedRequest
from hookline.tells import Tells
from hookline_metrics.engine_tells import EngineTells

T = TypeVar("T")


class Case(StrEnum):
    """What is checked. Requests have the case that they stand for as client's id."""

    LENGTH = "length"
    """A request reaches its most tokens."""
    STOP = "stop"
    """A request stops before."""
    ABORT_WAITING = "abort_waiting"
    """The client leaves before the engine has begun with the request."""
    ABORT_PREFILL = "abort_prefill"
    """The client leaves before the first token."""
    ABORT_DECODE = "abort_decode"
    """The client leaves after the first token."""
    TIMEOUT = "timeout"
    """A request's deadline passes."""
    REJECTED = "rejected"
    """A request reaches no engine."""
    DEATH = "death"
    """The engine ends while a request runs."""
    IDLE = "idle"
    """All requests have ended."""
    SEVERAL = "several"
    """Two engines have a request each."""
    ORDER = "order"
    """Hooks and events are told in their order, and each end once."""
    INTERVALS = "intervals"
    """The parts of a request's time fit into the whole."""
    CONSERVATION = "conservation"
    """What came is what ended and what is left, in requests and in tokens."""
    STEPS = "steps"
    """Each step has a record."""
    BLOCKS = "blocks"
    """KV blocks are used, cached or free."""
    DECLARATION = "declaration"
    """Facts tell what the engine's kind has declared."""


class Scene(StrEnum):
    """A run of engines from their start to their end."""

    REQUESTS = "requests"
    """One engine, with all cases that end a request, and then none."""
    DEATH = "death"
    """One engine, which ends while it has a request of the case `DEATH`."""
    SEVERAL = "several"
    """Two engines, with a request each: `several-0` and `several-1`."""


@dataclass(frozen=True, slots=True)
class End:
    """How a request has ended for its client.

    Attributes:
        reason: Why.
        output_tokens: How many tokens the client got; None if it cannot know.
        engine: The engine that had it.
    """

    reason: FinishReason
    output_tokens: int | None = None
    engine: int = 0


@dataclass(frozen=True, slots=True)
class Session:
    """A scene that is over.

    Attributes:
        calls: The hooks' names and payloads, in order, as a `RecordingLogger` has them.
        ends: How each request has ended, by its client's id.
    """

    calls: Sequence[tuple[str, object]]
    ends: Mapping[str, End]

    def payloads(self, kind: type[T]) -> Iterable[T]:
        """Returns the payloads of a kind."""
        return [each for _, each in self.calls if isinstance(each, kind)]

    @property
    def tells(self) -> frozenset[Tells]:
        """What all its engines tell."""
        told = [set(each.facts.tells) for each in self.payloads(EngineStarted)]
        return frozenset(set.intersection(*told)) if told else frozenset()

    @property
    def finished(self) -> Sequence[FinishedRequest]:
        """The ends that loggers were told of."""
        batches = self.payloads(RequestsFinished)
        return [each for batch in batches for each in batch.requests]

    def reports(self, engine: int) -> Sequence[StepFinished | StateChanged]:
        """The states of an engine, with what has happened since the one before."""
        kinds = (StepFinished, StateChanged)
        found = [each for _, each in self.calls if isinstance(each, kinds)]
        return [each for each in found if each.engine_index == engine]


class EngineUnderTest(Protocol):
    """An engine, and how one has the scenes happen.

    Attributes:
        name: Its name in `hookline.engine_tells`.
        tells: What it has declared there.
        cannot: Why there are cases that it does not have.
    """

    @property
    def name(self) -> str: ...

    @property
    def tells(self) -> EngineTells: ...

    @property
    def cannot(self) -> Mapping[Case, str]: ...

    def play(self, scene: Scene) -> Session:
        """Has a scene happen, without the cases that it does not have."""
        ...
