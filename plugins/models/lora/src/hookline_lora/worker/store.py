"""Adapters in main memory, and the thread that reads them beside the steps."""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hookline_kernels.runtime.threads.torch_threads import torch_threads
from hookline_lora.exceptions import AdapterError
from hookline_lora.messages import AdapterReports, LoadedWeights
from hookline_lora.worker.sites import PackedAdapter
from hookline_registry.isolation import Failure, isolate

DROPPED = "it was dropped while it was read"
MOST_WAITING = 1024
"""Largest number of orders to load that wait; the scheduler's side gives fewer."""
_END_SECONDS = 10.0

Read = Callable[[str, str], PackedAdapter]
"""Reads the adapter of a digest from a path; raises `AdapterError`. Runs in the
background, so that it must neither hold the interpreter's lock for long nor start
threads."""


@dataclass(frozen=True, slots=True)
class _Order:
    """An adapter to read; no two orders have one ticket."""

    ticket: int
    digest: str
    path: str


@dataclass(frozen=True, slots=True)
class _Ended:
    """What became of an order: the adapter, or why there is none."""

    order: _Order
    found: PackedAdapter | str
    seconds: float


class AdapterStore:
    """Main memory of one rank. All but `read` runs on the worker's thread.

    Attributes:
        adapters: Those that are there, by digest.
    """

    def __init__(self, read: Read) -> None:
        """Starts no thread yet."""
        self._read = read
        self.adapters: dict[str, PackedAdapter] = {}
        self._wanted: dict[str, int] = {}
        self._last_ticket = 0
        self._orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[_Ended] = queue.SimpleQueue()
        self._left: list[_Ended] = []
        self._thread: threading.Thread | None = None

    def load(self, orders: Mapping[str, str]) -> None:
        """Begins to read adapters, by digest; `reports` tells of the end of each."""
        for digest, path in orders.items():
            self._last_ticket += 1
            order = _Order(self._last_ticket, digest, path)
            self._wanted[digest] = order.ticket
            if self._orders.qsize() >= MOST_WAITING:
                reason = f"{MOST_WAITING} adapters wait to be read"
                self._ended.put(_Ended(order, reason, 0.0))
                continue
            self._orders.put(order)
        if orders and self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="hookline-adapters", daemon=True
            )
            self._thread.start()

    def drop(self, digest: str) -> None:
        """Forgets an adapter, or one that is being read."""
        self.adapters.pop(digest, None)
        self._wanted.pop(digest, None)

    def reports(self) -> AdapterReports | None:
        """Takes the adapters that have been read; returns what to tell of them.

        Each order is told once; two of one adapter are told one after the other.
        """
        loaded: dict[str, LoadedWeights] = {}
        failed: dict[str, str] = {}
        while not self._ended.empty():
            self._left.append(self._ended.get())
        ended, self._left = self._left, []
        for each in ended:
            digest = each.order.digest
            if digest in loaded or digest in failed:
                self._left.append(each)
                continue
            found = self._taken(each)
            if isinstance(found, str):
                failed[digest] = found
            else:
                self.adapters[digest] = found
                loaded[digest] = LoadedWeights(each.seconds, found.num_bytes)
        return AdapterReports(loaded, failed) if loaded or failed else None

    def _taken(self, ended: _Ended) -> PackedAdapter | str:
        order = ended.order
        if self._wanted.get(order.digest) != order.ticket:
            return DROPPED
        del self._wanted[order.digest]
        return ended.found

    def close(self) -> None:
        """Ends the thread, if it can be ended soon."""
        self._wanted.clear()
        if self._thread is not None:
            self._orders.put(None)
            self._thread.join(_END_SECONDS)
        self.adapters.clear()

    def _run(self) -> None:
        """Reads adapters one after another; `read` rests while steps are computed."""
        threads = torch_threads()
        while (order := self._orders.get()) is not None:
            if self._wanted.get(order.digest) != order.ticket:
                self._ended.put(_Ended(order, DROPPED, 0.0))
                continue
            started = time.monotonic()
            threads.lower(1)
            outcome = isolate(self._read, order.digest, order.path)
            threads.restore()
            seconds = time.monotonic() - started
            self._ended.put(_Ended(order, _found(outcome), seconds))


def _found(outcome: PackedAdapter | Failure) -> PackedAdapter | str:
    if not isinstance(outcome, Failure):
        return outcome
    if isinstance(outcome.error, AdapterError):
        return outcome.error.reason
    return outcome.summary
