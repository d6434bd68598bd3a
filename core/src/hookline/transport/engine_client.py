"""What the front end sees of an engine, whichever engine it is and wherever it runs."""

from collections.abc import Sequence
from typing import Protocol

from hookline.events import ClockPair, StepOutput
from hookline.finish_cause import FinishCause
from hookline.payloads import EngineFacts
from hookline.request import EngineRequest


class EngineClient(Protocol):
    """The front end's side of an engine.

    `receive` is called by one thread only; the other methods may be called by one other
    thread. Once the engine has died every method raises `EngineDeadError`.

    Attributes:
        facts: What the engine turned out to be.
        clock: The engine's clocks when it started.
    """

    facts: EngineFacts
    clock: ClockPair

    def add(self, request: EngineRequest) -> None:
        """Sends a request to the engine; QUEUED follows in a step's output."""
        ...

    def finish(self, request_ids: Sequence[int], cause: FinishCause) -> None:
        """Ends requests early; FINISHED follows. Unknown ids are ignored."""
        ...

    def reset_prefix_cache(self) -> None:
        """Forgets all reusable blocks not held by a request; a state output follows."""
        ...

    def receive(self, timeout_seconds: float) -> StepOutput | None:
        """Waits for the next output; None if none came in time.

        Raises:
            EngineDeadError: The engine died, within a second of its death.
        """
        ...

    def close(self) -> None:
        """Ends the engine and everything it owns; may be called twice."""
        ...
