"""Requests that cannot be admitted yet step aside and do not delay others.

A request may need something before it can run: a compiled grammar, KV from elsewhere,
an adapter's weights. Each such need is a gate. A request whose gate is closed leaves
the waiting queue for a set where it is counted by the gate's name. Once the gate opens,
it takes the place in the queue again that its arrival or priority gives it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hookline.finish_cause import FinishCause
from hookline.request import Request


@dataclass(frozen=True, slots=True)
class Readiness:
    """A request whose wait at a gate is over.

    Attributes:
        request: The request.
        cause: Why it ends, for it can never be admitted; None if it is ready.
    """

    request: Request
    cause: FinishCause | None = None


class ReadinessGate(Protocol):
    """A need that requests may have to wait for.

    All methods run on the engine's thread, must not block and raise nothing.

    Attributes:
        is_pending: Whether `take_ready` has to be called although no request is held.
            An attribute, so that an idle gate costs a step no call.
    """

    is_pending: bool

    @property
    def param(self) -> str | None:
        """Field of `SamplingParams` without which a request needs nothing here.

        The gate is asked only for requests that have it; None if it is for all.
        """

    @property
    def name(self) -> str:
        """What requests wait for here, such as `grammar`; they are counted by it."""

    @property
    def timeout_ns(self) -> int | None:
        """Wait after which a request ends with an error; None if it is unlimited."""

    def is_open(self, request: Request) -> bool:
        """Returns whether the request need not wait, and starts what it needs if not.

        Called when the request arrives and whenever it is about to be admitted.
        """

    def take_ready(self) -> Sequence[Readiness]:
        """Returns held requests whose wait has ended since the last call.

        Called before a step is planned if any request is held, or if `is_pending`.
        """

    def cancel(self, request: Request) -> None:
        """A held request ends, perhaps for an error of this gate: forget it."""

    def close(self) -> None:
        """The engine ends, after its last request."""
