"""The process that owns this one, as a supervised process sees it."""

import ctypes
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext

from hookline_processes.forked_children import keep_from_forked_children
from hookline_processes.frames import FrameError, read_frame, write_frame
from hookline_processes.log_forwarding import forwarding_log
from hookline_processes.usage import take_role

_LOOK_MS = 500
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_OTHER_SIGNALS = (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that a terminal sends to all processes, or that end one by default."""

HELD = (*_STOP_SIGNALS, *_OTHER_SIGNALS)
"""Signals that wait until a supervised process has decided what they mean to it."""

_SET_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of Linux."""


class Owner:
    """The owner's end of this process: a channel to it, and the watch for its end.

    Attributes:
        pid: Process id of the owner, the parent of this process.
        channel: This end of the channel; the owner has hung up once it is closed there.
    """

    def __init__(self, pid: int, descriptor: int = 0) -> None:
        """Takes over the channel, which is standard input.

        From here on, standard input is empty: neither programs that this process starts
        nor children that it forks hold the channel.
        """
        self.pid = pid
        self.channel = socket.socket(fileno=os.dup(descriptor))
        keep_from_forked_children(self.channel)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, descriptor)
        os.close(null)

    def receive_bytes(self) -> bytes | None:
        """Waits for a message of the owner; None once it has hung up."""
        try:
            return read_frame(self.channel.fileno())
        except FrameError:  # it ended while it wrote
            return None

    def send_bytes(self, body: bytes) -> None:
        """Sends the owner a message; it is lost if the owner has hung up."""
        try:
            write_frame(self.channel.fileno(), body)
        except ConnectionError:
            return

    def watch(self, gone: Callable[[], None] = lambda: None) -> None:
        """Ends this process once the owner has hung up or has ended.

        A thread waits for that. It holds no lock, so this process may fork.

        Args:
            gone: Called first, in that thread; whatever it takes delays the end.
        """

        def wait() -> None:
            self.wait_until_gone()
            try:
                gone()
            finally:
                os._exit(0)

        threading.Thread(target=wait, name="owner-watch", daemon=True).start()

    def wait_until_gone(self) -> None:
        """Returns once the owner has hung up or has ended.

        The channel alone would not do: a child of the owner, forked by foreign code,
        may hold its other end.
        """
        poller = select.poll()
        poller.register(self.channel, select.POLLHUP)
        while os.getppid() == self.pid and not poller.poll(_LOOK_MS):
            pass


def run_supervised(
    main: Callable[[Owner, Sequence[str]], int],
    *,
    ignored: Iterable[signal.Signals] = _STOP_SIGNALS,
) -> int:
    """Runs the main function of a module that `Supervised` has started.

    Args:
        main: Called with the owner and the module's own arguments; returns the exit
            status.
        ignored: Signals to end that are ignored, since the owner decides when. Those
            that other programs give meanings to are, too, whatever this is.

    Returns:
        The exit status; the log has reached the owner.
    """
    for number in (*ignored, *_OTHER_SIGNALS):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)
    *arguments, pid, log, level = sys.argv[1:]
    take_role()
    owner = Owner(int(pid))
    with forwarding_log(int(log), int(level)) if int(log) >= 0 else nullcontext():
        return main(owner, arguments)


def die_with_starter() -> None:
    """Has the kernel kill this process when the thread that has started it ends.

    It ends even a process that is stopped, which can watch nothing. Whoever starts one
    needs a thread that lives as long as the process may, and the process is given no
    time for an orderly end: hence only for those that must not outlive their owner.
    """
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
