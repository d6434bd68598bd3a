"""Requests that cannot be admitted yet step aside and do not delay others.

A request may need something before it can run: a compiled grammar, KV from elsewhere,
an adapter's weights. Each such need is a gate. A request whose gate is closed leaves
the waiting queue for a set where it is counted by the gate's name. Once the gate opens,
it takes the place in the queue again that its arrival or priority gives it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hookline.finish_cause import Failed, FinishCause
from hookline.frozen import EMPTY, frozen_map
from hookline.request import Request, RequestStatus
from hookline.scheduler.request_times import OldestRequest


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


@dataclass(frozen=True, slots=True)
class _Held:
    request: Request
    gate: ReadinessGate
    since: int


class HeldRequests:
    """Requests that stand aside, each at one gate, in the order of their wait's begin.

    Attributes:
        oldest: The one that was queued first.
        counts: Number of requests at each gate, by its name, none of them 0; replaced,
            never changed.
    """

    def __init__(self, gates: Sequence[ReadinessGate] = ()) -> None:
        """Starts empty; every request has to pass the gates, in this order."""
        self.oldest = OldestRequest()
        self._gates = gates
        timeouts = [gate.timeout_ns for gate in gates if gate.timeout_ns is not None]
        self._shortest_timeout = min(timeouts, default=None)
        self._held: dict[int, _Held] = {}
        self.counts: Mapping[str, int] = EMPTY

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, request: Request) -> bool:
        held = self._held.get(request.request_id)
        return held is not None and held.request is request

    def closed_gate(self, request: Request) -> ReadinessGate | None:
        """Returns the first gate that the request has to wait at."""
        for gate in self._gates:
            if not gate.is_open(request):
                return gate
        return None

    def hold(self, request: Request, gate: ReadinessGate, now: int) -> None:
        """Sets a request aside, which must be in no queue."""
        request.status = RequestStatus.HELD
        self._held[request.request_id] = _Held(request, gate, now)
        self._count(gate, 1)
        self.oldest.add(request)

    def discard(self, request: Request) -> None:
        """Lets a request go whose wait is over; the caller queues or ends it."""
        held = self._held.pop(request.request_id)
        self._count(held.gate, -1)
        self.oldest.remove(request)
        is_new = request.num_cached_tokens is None
        request.status = RequestStatus.WAITING if is_new else RequestStatus.PREEMPTED

    def _count(self, gate: ReadinessGate, more: int) -> None:
        number = self.counts.get(gate.name, 0) + more
        others = {name: n for name, n in self.counts.items() if name != gate.name}
        self.counts = frozen_map({**others, gate.name: number} if number else others)

    def cancel(self, request: Request) -> None:
        """Lets a request go that ends while it waits."""
        gate = self._held[request.request_id].gate
        self.discard(request)
        gate.cancel(request)

    def close(self) -> None:
        """Closes the gates."""
        for gate in self._gates:
            gate.close()

    def take_ready(self, now: int) -> Iterable[Readiness]:
        """Returns requests whose wait has ended at a gate, or lasted too long."""
        for gate in self._gates:
            yield from gate.take_ready()
        if self._shortest_timeout is None:
            return
        for each in list(self._held.values()):
            waited, timeout = now - each.since, each.gate.timeout_ns
            if waited < self._shortest_timeout:
                return  # later ones have waited less
            if timeout is not None and waited >= timeout:
                error = (
                    f"waiting_for_{each.gate.name} for longer than {timeout / 1e9:g} s"
                )
                yield Readiness(each.request, Failed(error))
