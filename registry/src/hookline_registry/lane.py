"""The queue and thread of one plugin, which decouple it from the engine."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from hookline_registry.breaker import Breaker, BreakerState
from hookline_registry.failure_log import FailureLog
from hookline_registry.isolation import Failure, isolate

Notice = tuple[str, Mapping[str, object]]
"""A hook's name and the keyword arguments of the call."""

Around = Callable[[str], AbstractContextManager[object]]
"""Encloses what a plugin does, which is given by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneStats:
    """State of a lane.

    Attributes:
        name: Name of the plugin.
        depth: Number of waiting batches.
        delivered: Number of batches delivered to the plugin.
        dropped: Number of batches that the plugin never got.
        errors: Number of calls that raised.
        busy_seconds: Time spent in the plugin, including the current call.
        breaker: State of its breaker.
        last_error: The latest error in one line.
        waited_seconds: How long the oldest batch has waited that the plugin has not
            taken, or not to the end; 0 if there is none.
    """

    name: str
    depth: int
    delivered: int
    dropped: int
    errors: int
    busy_seconds: float
    breaker: BreakerState
    last_error: str | None
    waited_seconds: float = 0.0


class Lane:
    """Delivers batches of notices to one plugin, in order, in its own thread.

    After a delivery the thread lingers: batches that arrive meanwhile are delivered
    together, because waking the thread for each costs more than delivering it.

    Every batch has a number, and is settled once it is delivered or dropped. Numbers
    make `flush` a barrier even while the plugin hangs and later batches are dropped:
    the batch that it holds is still the oldest unsettled one.
    """

    def __init__(
        self,
        name: str,
        callers: Mapping[str, Sequence[Callable[..., object]]],
        *,
        bound: int,
        breaker: Breaker,
        linger_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        around: Around | None = None,
    ) -> None:
        self._around = around
        self._name = name
        self._linger_seconds = linger_seconds
        self._callers = callers
        self._bound = bound
        self._breaker = breaker
        self._clock = clock
        self._failures = FailureLog(f"plugin {name}", log_seconds=math.inf)
        self._queue: deque[tuple[int, float, Sequence[Notice]]] = deque()
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._settled = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._last_number = 0
        self._in_flight: int | None = None
        self._in_flight_since = 0.0
        self._busy_since: float | None = None
        self._busy_seconds = 0.0
        self._delivered = 0
        self._dropped = 0
        self._is_closed = False
        self._is_idle = True
        self._hurrying = 0

    def submit(self, batch: Sequence[Notice]) -> None:
        """Queues a batch if it concerns the plugin; never blocks.

        A full lane drops its oldest batch, a closed lane the new one.
        """
        callers = self._callers
        for hook, _ in batch:  # no generator: it is called for every step and lane
            if hook in callers:
                break
        else:
            return
        with self._lock:
            self._last_number += 1
            if self._is_closed:
                self._dropped += 1
                return
            if len(self._queue) >= self._bound:
                self._queue.popleft()
                self._dropped += 1
                self._settled.notify_all()
            self._queue.append((self._last_number, time.monotonic(), batch))
            if self._is_idle or len(self._queue) * 2 >= self._bound:
                self._ensure_thread()
                self._arrived.notify()

    def flush(self, timeout_seconds: float) -> bool:
        """Waits until all batches so far are settled; returns False on timeout."""
        with self._settled:
            self._hurrying += 1
            try:
                return self._wait_for_all(timeout_seconds)
            finally:
                self._hurrying -= 1

    def close(self, timeout_seconds: float) -> bool:
        """Accepts no more batches, settles the waiting ones and ends the thread.

        A plugin that does not return in time is abandoned and its waiting batches are
        dropped; its daemon thread ends when the plugin returns.

        Returns:
            Whether all batches were settled in time.
        """
        with self._settled:
            self._is_closed = True
            is_settled = self._wait_for_all(timeout_seconds)
            self._dropped += len(self._queue)
            self._queue.clear()
            self._arrived.notify_all()
            thread = self._thread
        if is_settled and thread is not None and thread.ident is not None:
            thread.join()  # it is idle
        return is_settled

    @property
    def stats(self) -> LaneStats:
        with self._settled:
            since = self._busy_since
            running = 0.0 if since is None else self._clock() - since
            return LaneStats(
                name=self._name,
                depth=len(self._queue),
                delivered=self._delivered,
                dropped=self._dropped,
                errors=self._failures.count,
                busy_seconds=self._busy_seconds + running,
                breaker=self._breaker.state,
                last_error=self._failures.last,
                waited_seconds=self._waited_seconds(),
            )

    def _wait_for_all(self, timeout_seconds: float) -> bool:
        target = self._last_number
        if self._queue:
            self._ensure_thread()
            self._arrived.notify()
        return self._settled.wait_for(
            lambda: self._oldest_unsettled() > target, timeout_seconds
        )

    def _oldest_unsettled(self) -> int:
        if self._in_flight is not None:
            return self._in_flight
        return self._queue[0][0] if self._queue else self._last_number + 1

    def _waited_seconds(self) -> float:
        if self._in_flight is not None:
            return time.monotonic() - self._in_flight_since
        return time.monotonic() - self._queue[0][1] if self._queue else 0.0

    def _ensure_thread(self) -> None:
        """Starts the thread if it does not run."""
        if self._thread is not None and self._thread.is_alive():
            return
        thread = threading.Thread(
            target=self._run, name=f"hookline-lane-{self._name}", daemon=True
        )
        started = isolate(thread.start)
        if isinstance(started, Failure):  # out of threads: the next batch retries
            self._failures.note(("start",), started.summary, error=started.error)
            return
        self._thread = thread

    def _run(self) -> None:
        try:
            self._deliver_all()
        finally:
            self._is_idle = True  # so that the next batch starts another thread

    def _deliver_all(self) -> None:
        while (batch := self._take()) is not None:
            is_delivered = False
            try:
                if self._around is None:
                    is_delivered = self._deliver(batch)
                else:
                    with self._around(self._name):
                        is_delivered = self._deliver(batch)
            finally:
                self._settle(is_delivered=is_delivered)

    def _take(self) -> Sequence[Notice] | None:
        with self._lock:
            if not self._queue:
                self._arrived.wait_for(self._is_urgent, self._linger_seconds)
            while not self._queue:
                if self._is_closed:
                    return None
                self._is_idle = True
                self._arrived.wait()
            self._is_idle = False
            self._busy_since = self._clock()
            self._in_flight, self._in_flight_since, batch = self._queue.popleft()
            return batch

    def _is_urgent(self) -> bool:
        """Whether to stop lingering, because a flush waits or the queue fills up."""
        waiting = len(self._queue)
        is_wanted = waiting > 0 and self._hurrying > 0
        return self._is_closed or is_wanted or waiting * 2 >= self._bound

    def _deliver(self, batch: Sequence[Notice]) -> bool:
        if not self._breaker.allows():
            return False
        self._breaker.record(
            [
                self._call(hook, caller, arguments)
                for hook, arguments in batch
                for caller in self._callers.get(hook, ())
            ]
        )
        return True

    def _call(
        self, hook: str, caller: Callable[..., object], arguments: Mapping[str, object]
    ) -> bool:
        outcome = isolate(caller, **arguments)
        if isinstance(outcome, Failure):
            self._failures.note((hook,), outcome.summary, error=outcome.error)
            return False
        return True

    def _settle(self, *, is_delivered: bool) -> None:
        with self._lock:
            if self._busy_since is not None:
                self._busy_seconds += self._clock() - self._busy_since
            self._busy_since = None
            self._in_flight = None
            if is_delivered:
                self._delivered += 1
            else:
                self._dropped += 1
            self._settled.notify_all()
