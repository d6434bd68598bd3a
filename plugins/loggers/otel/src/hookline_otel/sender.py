"""What exports one signal in a thread of the SDK, and ends within bounded time."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from hookline_otel.endpoint import Signal
from hookline_otel.said import listening
from hookline_registry import isolate

INTERRUPT_SECONDS = 0.1
"""Time that an interrupted export gets to return."""


class _Closer:
    """A thread that shuts a provider down, which may take long, once it is asked to.

    It exists from the start, as a program that ends cannot start threads.
    """

    def __init__(self, signal: Signal, begin: Callable[[], object]) -> None:
        self._begin = begin
        self._shut_down: Callable[[], object] | None = None
        self._is_ending = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"hookline-otel-{signal}", daemon=True
        )

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def start(self, shut_down: Callable[[], object]) -> None:
        """Begins; `shut_down` sends what is left when it ends."""
        self._shut_down = shut_down
        self._thread.start()

    def request_stop(self) -> None:
        """Does not block."""
        self._is_ending.set()

    def wait(self, timeout_seconds: float) -> None:
        """Waits for the end, for a limited time."""
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        with listening():  # that an exporter has ended already is no news
            isolate(self._begin)
            self._is_ending.wait()
            assert self._shut_down is not None
            isolate(self._shut_down)


class Sender(ABC):
    """Exports one signal, from `start` to `close`, in threads of its own."""

    def __init__(self, signal: Signal) -> None:
        self.signal = signal
        self._closer: _Closer | None = None
        self._lock = threading.Lock()

    @property
    def is_running(self) -> bool:
        """Whether it has been started, and not everything has ended."""
        return self._closer is not None and self._closer.is_running

    def start(self) -> None:
        """Starts the threads; further calls have no effect."""
        with self._lock:
            if self._closer is None:
                self._closer = _Closer(self.signal, self._begin)
                self._closer.start(self._open())

    def request_stop(self) -> None:
        """Makes it send the rest and end; does not block."""
        if self._closer is not None:
            self._closer.request_stop()

    def close(self, timeout_seconds: float) -> None:
        """Waits for the end for a limited time, then drops the rest."""
        self.request_stop()
        if self._closer is not None:
            self._closer.wait(timeout_seconds)
            if self._closer.is_running:
                with listening():
                    isolate(self._interrupt)
                self._closer.wait(INTERRUPT_SECONDS)  # so that it says why it failed
        self._drop()

    def _begin(self) -> object:
        """Is called in the thread that will end it, before it waits for that."""
        return None

    @abstractmethod
    def _open(self) -> Callable[[], object]:
        """Opens the SDK's provider; returns what shuts it down."""

    @abstractmethod
    def _drop(self) -> None:
        """Drops what has not been sent."""

    @abstractmethod
    def _interrupt(self) -> None:
        """Makes an export in progress give up; does not block."""
