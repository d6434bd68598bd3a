"""The signals that a server takes, and its end in bounded time whatever hangs."""

import asyncio
import logging
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from hookline_processes.terminal import Terminal
from hookline_server.children import kill_children

FORCED_END_SECONDS = 10.0
"""Time after the drain for last writes, the engine's end and the loggers' flushes."""

LEFTOVERS_SECONDS = 2.0
"""Time between the end of serving and that of the process, such as for its threads."""

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
"""Signals that stop."""

WITHOUT_EFFECT = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals that other servers give meanings to; they would end a process."""

HANGUP = (
    "SIGHUP: serving goes on; key files and rotated logs are followed without a signal"
)

Handler = Callable[[int, FrameType | None], object] | int | None

_ENDS = 255
logger = logging.getLogger(__name__)


class StopSignals:
    """Handles SIGTERM, SIGINT and SIGQUIT in a thread of its own.

    The first signal sets `requested`, a second one ends the process. So does SIGHUP
    when the terminal is lost; otherwise that is only logged. So does the time:
    a process that is still there `seconds` after the first signal is ended, with its
    children. The thread needs neither the event loop nor the main thread, which may
    hang: the interpreter writes each signal's number to a socket that the thread reads.

    Attributes:
        requested: Set on the event loop by the first signal.
    """

    def __init__(self, seconds: float) -> None:
        """Takes over the signals of the process; only in the main thread.

        Args:
            seconds: Maximum time from the first signal to the end of the process.
        """
        self.requested = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._first: int | None = None
        self._status = 0
        self._deadline: float | None = None
        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        self._terminal = Terminal()
        self._former = {each: signal.signal(each, _wake_up) for each in SIGNALS}
        self._former |= ignore_all()
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as under nohup
            former = signal.signal(signal.SIGHUP, _wake_up)
            self._former[signal.SIGHUP] = former
        threading.Thread(
            target=self._watch, name="hookline-stop-signals", daemon=True
        ).start()

    def ends(self, status: int) -> None:
        """Called when serving has ended.

        After a signal, the process ends with this status soon, even if it does not end
        by itself. Without one, the process goes on with its former signal handlers.
        """
        self._status = status
        if self._first is None:
            signal.set_wakeup_fd(-1)
            for number, handler in self._former.items():
                signal.signal(number, handler)
        self._write.send(bytes((_ENDS,)))

    def _watch(self) -> None:
        while True:
            for number in self._receive():
                if number == _ENDS and self._first is None:
                    self._read.close()
                    self._write.close()
                    return
                if number == _ENDS:
                    self._deadline = time.monotonic() + LEFTOVERS_SECONDS
                elif number in SIGNALS:
                    self._take(number)
                elif number == signal.SIGHUP:
                    self._take_hangup()
            if self._deadline is not None and time.monotonic() >= self._deadline:
                _end_process(self._status, "it did not end in time")

    def _receive(self) -> bytes:
        """Waits for signals, at most until the deadline."""
        timeout = None
        if self._deadline is not None:
            timeout = max(self._deadline - time.monotonic(), 0.0)
        ready, _, _ = select.select((self._read,), (), (), timeout)
        return self._read.recv(64) if ready else b""

    def _take_hangup(self) -> None:
        if self._terminal.is_lost:
            self._take(signal.SIGHUP)
        else:
            logger.info(HANGUP)

    def _take(self, number: int) -> None:
        if self._first is not None:
            _end_process(128 + number, "a second signal")
        self._first = number
        self._status = 128 + number
        self._deadline = time.monotonic() + self._seconds
        with suppress(RuntimeError):  # the event loop is closed already
            self._loop.call_soon_threadsafe(self.requested.set)


def ignore_all() -> dict[signal.Signals, Handler]:
    """Ignores signals without effect; returns their former handlers."""
    return {each: signal.signal(each, signal.SIG_IGN) for each in WITHOUT_EFFECT}


def _wake_up(_: int, __: FrameType | None) -> None:
    """A handler in Python, without which no signal is written to the socket."""


def _end_process(status: int, reason: str) -> None:
    kill_children()
    # Nobody may read standard error: a write to a full pipe would block.
    if status and select.select((), (2,), (), 0)[1]:
        with suppress(OSError):
            os.write(2, f"hookline: forced end: {reason}\n".encode())
    os._exit(status)
