"""The owner's side of a Ray driver process."""

import logging
import queue
import threading
from contextlib import suppress

import msgspec

from hookline.exceptions import EngineDeadError
from hookline.frozen import plain
from hookline_processes.supervised import Supervised
from hookline_ray.messages import Ended, FromDriver, NotOpened, Open, Opened, ToDriver

_MODULE = "hookline_ray.driver_process"
_OPENING_SECONDS = 60.0
"""Ray gives up earlier."""
_GRACE_SECONDS = 10.0
_log = logging.getLogger(__name__)


class DriverLink:
    """Starts the driver process, and exchanges messages with it; for one thread.

    Ray itself is in that process only. If it ends, another one can take its place.

    Attributes:
        address: Address of this machine in the cluster.
    """

    def __init__(self, opening: Open) -> None:
        """Starts the process and waits until it is connected.

        Raises:
            EngineDeadError: The cluster cannot be used.
        """
        self._opening = opening
        self._events: queue.SimpleQueue[FromDriver | None] = queue.SimpleQueue()
        self._process = self._start()
        try:
            self.address = self._opened()
        except BaseException:
            self.close()
            raise

    @property
    def end_reason(self) -> str | None:
        """How the process ended, in one clause; None while it runs."""
        return self._process.end_reason

    def revive(self) -> bool:
        """Starts another process if this one has ended; False if it cannot."""
        if self.end_reason is not None:
            self._process.close(0.0)
            try:
                self._process = self._start()
            except OSError as error:
                _log.error("the Ray driver process cannot be started: %s", error)
                return False
        return True

    def tell(self, command: ToDriver) -> None:
        # A command is small, and the driver reads it in a thread of its own.
        self._process.send_bytes(msgspec.msgpack.encode(command, enc_hook=plain))

    def take_end(self) -> Ended | None:
        """Returns the next end of an actor that the driver has told."""
        while not self._events.empty():
            event = self._events.get()
            if isinstance(event, Ended):
                return event
        return None

    def close(self) -> None:
        """Ends the process, and with it all actors; may be called twice."""
        self._process.hang_up()
        self._process.close(_GRACE_SECONDS)

    def _opened(self) -> str:
        with suppress(queue.Empty):
            event = self._events.get(timeout=_OPENING_SECONDS)
            if isinstance(event, Opened):
                return event.address
            if isinstance(event, NotOpened):
                raise EngineDeadError(f"{self._cluster} cannot be used: {event.reason}")
            self._process.close(_GRACE_SECONDS)
            raise EngineDeadError(
                f"the Ray driver process has ended: {self.end_reason}"
            )
        raise EngineDeadError(
            f"{self._cluster} did not answer within {_OPENING_SECONDS:g} s"
        )

    @property
    def _cluster(self) -> str:
        address = self._opening.address
        return f"the Ray cluster {address}" if address else "a Ray cluster of its own"

    def _start(self) -> Supervised:
        process = Supervised(_MODULE, name="ray")
        threading.Thread(
            target=self._receive_events, args=[process], name="ray-events", daemon=True
        ).start()
        process.send_bytes(msgspec.msgpack.encode(self._opening))
        return process

    def _receive_events(self, process: Supervised) -> None:
        while (data := process.receive_bytes()) is not None:
            try:
                event = msgspec.msgpack.decode(data, type=FromDriver)
            except msgspec.MsgspecError as error:
                _log.error("the Ray driver sent what is no event: %s", error)
            else:
                self._events.put(event)
        self._events.put(None)
