"""A front end's connection to the observer process: sends, listens, and starts over."""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable

import msgspec

from hookline.clock import NANOSECONDS, Clock, SystemClock
from hookline.exceptions import HooklineError
from hookline.frontend.observing import ObserverAddress, TellFirst
from hookline.pages import PageRoute
from hookline_observer.messages import (
    Alive,
    EncodedNotices,
    Flush,
    Flushed,
    Join,
    Leave,
    Tell,
    ToFrontEnd,
    Told,
)
from hookline_observer.outbox import Outbox
from hookline_process_engine.ipc import IpcTransport, ipc_address
from hookline_process_engine.mailbox import Mailbox
from hookline_process_engine.transport import Party, Role
from hookline_processes.forked_children import release_folder_in_forked_children
from hookline_registry import Failure, isolate

OBSERVER = Party(Role.OBSERVER, 0)

SILENT_SECONDS = 5.0
"""Time without a sign of life after which the observer process counts as silent."""

_IDLE_SECONDS = 0.5
_JOIN_SECONDS = 0.25
_END_SECONDS = 5.0
"""Time for the thread to send what waits; it waits for nothing else."""
_LISTEN_SECONDS = 60.0
_MOST_FRAMES = 16
"""Frames that the transport may hold; what waits beyond them waits in the outbox."""

_log = logging.getLogger(__name__)


class ObserverSilentError(HooklineError):
    """The observer process does not answer."""


class ObserverLink:
    """Sends an outbox to the observer process, in a thread of its own.

    Another thread listens, so that what the process asks for is sent at once.

    Attributes:
        outbox: What waits to be sent.
        tell_first: Called before `Told` is sent, in the listening thread; None if all
            that happens is put into the outbox at once.
    """

    def __init__(
        self,
        address: ObserverAddress,
        outbox: Outbox,
        *,
        linger_seconds: float,
        begin_again: Callable[[], None],
        clock: Clock | None = None,
    ) -> None:
        """Starts the thread.

        Args:
            address: The observer process.
            outbox: What to send.
            linger_seconds: How long notices wait to be sent together.
            begin_again: Puts what a new observer process has to be told first into the
                outbox; called in this link's thread.
            clock: The system's if None.
        """
        self.outbox = outbox
        self.tell_first: TellFirst | None = None
        self._linger_seconds = linger_seconds
        self._begin_again = begin_again
        self._clock = clock or SystemClock()
        self._connect(address)
        self._alive: Alive | None = None
        self._heard_at = self._joined_at = self._clock.now()
        self._is_silent = self._is_closing = False
        self._pending: set[int] = set()
        self._complete: dict[int, bool] = {}
        self._unsent: list[Flush | Told] = []
        self._last_flush = 0
        self._answered = threading.Condition()
        self._heard: deque[Alive | Flushed] = deque()
        self._threads = [
            threading.Thread(target=run, name=f"hookline-observer-{name}", daemon=True)
            for name, run in (("link", self._run), ("listen", self._listen))
        ]
        for thread in self._threads:
            thread.start()

    def _connect(self, address: ObserverAddress) -> None:
        me = Party(Role.CLIENT, address.index)
        self._transport = IpcTransport(address.folder, me)
        self._mailbox: Mailbox[ToFrontEnd] = Mailbox(
            self._transport,
            me,
            msgspec.msgpack.Decoder(ToFrontEnd),
            lambda peer: address.key if peer == OBSERVER else None,
        )
        release_folder_in_forked_children(address.folder)
        there = ipc_address(address.folder, OBSERVER)
        self._transport.connect(OBSERVER, there, max_waiting=_MOST_FRAMES)
        self._transport.bell = self._bell = os.eventfd(0, os.EFD_CLOEXEC)

    @property
    def silence(self) -> str | None:
        """Why the observer process does not answer; None while it does."""
        if not self._is_silent:
            return None
        seconds = (self._clock.now() - self._heard_at) / NANOSECONDS
        return f"the observer process has not answered for {seconds:.0f} s"

    @property
    def routes(self) -> tuple[PageRoute, ...]:
        """The pages of the loggers that run now."""
        return () if self._alive is None else self._alive.routes

    def wait_until_ready(self, timeout_seconds: float) -> Alive:
        """Waits for the first sign of life; raises `ObserverSilentError`."""
        with self._answered:
            self._answered.wait_for(lambda: self._alive is not None, timeout_seconds)
        if self._alive is None:
            raise ObserverSilentError("the observer process did not answer in time")
        return self._alive

    def flush(self, timeout_seconds: float) -> bool:
        """Waits until the observer's loggers are up to date; False if not in time."""
        with self._answered:
            self._last_flush += 1
            number = self._last_flush
            self._pending.add(number)
            self._unsent.append(Flush(number, timeout_seconds))
            self.outbox.hurry()
            self._answered.wait_for(
                lambda: number not in self._pending, timeout_seconds
            )
            self._pending.discard(number)
            return self._complete.pop(number, False)

    def close(self, linger_seconds: float) -> None:
        """Says farewell, and ends the thread and the sockets; may be called twice."""
        if self._is_closing:
            return
        self._is_closing = True
        self.outbox.hurry()
        os.eventfd_write(self._bell, 1)
        for thread in self._threads:
            thread.join(_END_SECONDS)
        self._mailbox.post(OBSERVER, Leave(), waits=False)
        self._transport.close(linger_seconds)
        os.close(self._bell)

    def _run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._is_closing  # all that came before is sent once more
            is_sent = self._is_joined() and self._send_waiting()
            self._take_heard()
            self._notice_silence()
            if is_last:
                return
            if is_sent:
                self.outbox.wait(_IDLE_SECONDS, self._linger_seconds)
            else:
                self.outbox.pause(self._linger_seconds)

    def _is_joined(self) -> bool:
        """Whether notices can be sent; asks to be heard, now and then, if not."""
        if self._alive is not None and not self._is_silent:
            return True
        now = self._clock.now()
        if now - self._joined_at > _JOIN_SECONDS * NANOSECONDS:
            self._joined_at = now
            self._mailbox.post(OBSERVER, Join(os.getpid()), waits=False)
        return False

    def _send_waiting(self) -> bool:
        """Sends all notices, then what must follow them; False if there is no room."""
        with self._answered:  # before the notices, which are there by now
            following, self._unsent = self._unsent, []
        while waiting := self.outbox.drain():
            age = (self._clock.now() - waiting[0].since) / NANOSECONDS
            frame = EncodedNotices(
                os.getpid(),
                self.outbox.dropped,
                age,
                [msgspec.Raw(each.notice) for each in waiting],
            )
            if not self._mailbox.post(OBSERVER, frame, waits=False):
                self.outbox.put_first(waiting)
                with self._answered:
                    self._unsent[:0] = following
                return False
        for place, each in enumerate(following):
            if not self._mailbox.post(OBSERVER, each, waits=False):
                with self._answered:
                    self._unsent[:0] = following[place:]
                return False
        return True

    def _listen(self) -> None:
        """The listening thread: has what is asked for sent, and notes the rest."""
        while not self._is_closing:
            if (mail := self._mailbox.receive(_LISTEN_SECONDS)) is None:
                continue
            if isinstance(mail.message, Tell):
                self._tell(mail.message)
            else:
                self._heard.append(mail.message)
            self.outbox.hurry()

    def _tell(self, tell: Tell) -> None:
        behind: float | Failure = 0.0
        if self.tell_first is not None:
            behind = isolate(self.tell_first, tell.seconds)
        if isinstance(behind, Failure):  # the server is being closed
            behind = tell.seconds
        with self._answered:
            self._unsent.append(Told(tell.number, behind))

    def _take_heard(self) -> None:
        while self._heard:
            message = self._heard.popleft()
            self._heard_at = self._clock.now()
            if isinstance(message, Alive):
                self._take_alive(message)
            else:
                with self._answered:
                    if message.number in self._pending:
                        self._pending.discard(message.number)
                        self._complete[message.number] = message.is_complete
                        self._answered.notify_all()

    def _take_alive(self, alive: Alive) -> None:
        known = self._alive
        if known is not None and known.incarnation != alive.incarnation:
            self._begin_again()
        if self._is_silent:
            self._is_silent = False
            _log.warning("the observer process answers again")
        with self._answered:
            self._alive = alive
            self._answered.notify_all()

    def _notice_silence(self) -> None:
        silent = self._clock.now() - self._heard_at > SILENT_SECONDS * NANOSECONDS
        if silent and not self._is_silent and self._alive is not None:
            self._is_silent = True
            _log.error(
                "the observer process has not answered for %g s; serving goes on, and "
                "what its loggers miss is counted",
                SILENT_SECONDS,
            )
