"""Virtual time of engines behind wires, which passes only while nothing happens.

Time-outs and deadlines end after exactly their time, however busy the machine is, and
nobody waits for them.
"""

import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from hookline.clock import NANOSECONDS, VirtualClock
from hookline_p2p.transport import Transport
from hookline_testing.own_time import Stopwatch, Took

_LOST_SECONDS = 2.0
"""When messages under way have been lost: a connection was closed meanwhile."""
_LOOK_SECONDS = 0.0005


@dataclass
class _Poll:
    """What the thread of one engine's transport is doing.

    Attributes:
        ends_at: When its poll ends, in virtual ns; None while it does something.
        is_woken: Whether the poll ends at once.
        count: How often a poll has begun or ended.
    """

    ends_at: int | None = None
    is_woken: bool = False
    count: int = 0


class WireTime:
    """The time of all engines of a test, whose threads tell what they are doing.

    It passes once every thread polls, no message is under way between two of them, and
    the engines, which had a turn since then, had nothing to do.

    Attributes:
        clock: The clock of the engines' cores.
    """

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self._lock = threading.Lock()
        self._polls: dict[Transport, _Poll] = {}
        self._ports: set[int] = set()
        self._num_under_way = 0
        self._seen: list[int] = []
        self._waiting: Stopwatch | None = None

    def seconds(self) -> float:
        """Returns the virtual time in seconds."""
        return self.clock.now() / NANOSECONDS

    def stopwatch(self) -> "VirtualStopwatch":
        """Implements `Pace`."""
        return VirtualStopwatch(self.clock)

    def wait(self) -> None:
        """Implements `Pace`: time passes until the first poll ends, or none does."""
        with self._lock:
            seen = [each.count for each in self._polls.values()]
            if seen != self._seen:
                self._seen, self._waiting = seen, None
            elif self._is_still:
                self._pass()
                self._seen = []
                return
        time.sleep(_LOOK_SECONDS)

    # -- told by transports, in their threads ---------------------------------------

    def listens(self, transport: Transport, port: int) -> None:
        """From now on time waits for this transport, until it `closed`."""
        with self._lock:
            self._polls[transport] = _Poll()
            self._ports.add(port)

    def closed(self, transport: Transport) -> None:
        """Nothing is received any more."""
        with self._lock, suppress(KeyError):
            del self._polls[transport]

    def sends(self, port: int | None) -> bool:
        """A message goes to a port, or back to a visitor.

        Returns:
            Whether time waits for it: an engine of this test is to receive it.
        """
        with self._lock:
            is_awaited = port is None or port in self._ports
            self._num_under_way += is_awaited
            return is_awaited

    def dropped(self, count: int = 1) -> None:
        """Messages are under way no more: they were received, or not sent."""
        with self._lock:
            self._num_under_way = max(0, self._num_under_way - count)

    def polls(self, transport: Transport, timeout_seconds: float) -> None:
        """A transport waits for this long at most."""
        with self._lock:
            poll = self._polls[transport]
            poll.ends_at = self.clock.now() + round(timeout_seconds * NANOSECONDS)
            poll.count += 1

    def polled(self, transport: Transport, received: int) -> None:
        """It waits no more."""
        with self._lock:
            poll = self._polls[transport]
            poll.ends_at, poll.is_woken = None, False
            poll.count += 1
            self._num_under_way = max(0, self._num_under_way - received)

    def woken(self, transport: Transport) -> None:
        """It has something to do."""
        with self._lock, suppress(KeyError):  # it is closed
            self._polls[transport].is_woken = True

    # -- under the lock ---------------------------------------------------------------

    @property
    def _is_still(self) -> bool:
        if any(each.ends_at is None or each.is_woken for each in self._polls.values()):
            return False
        if not self._num_under_way:
            return True
        self._waiting = self._waiting or Stopwatch()
        if self._waiting.own_seconds > _LOST_SECONDS:
            self._num_under_way = 0
        return False

    def _pass(self) -> None:
        ends = [each.ends_at for each in self._polls.values()]
        left = min((end for end in ends if end is not None), default=NANOSECONDS)
        self.clock.sleep(max(0, left - self.clock.now()) / NANOSECONDS)
        for transport, poll in self._polls.items():
            if poll.ends_at is not None and poll.ends_at <= self.clock.now():
                poll.is_woken = True
                transport.wake()


class VirtualStopwatch:
    """Measures virtual time from its construction on."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock, self._began = clock, clock.now()

    def took(self) -> Took:
        """Returns the time so far, all of which is the engines' own."""
        seconds = (self._clock.now() - self._began) / NANOSECONDS
        return Took(seconds, seconds)
