"""Follows the connections of a ZMQ socket by its events."""

from dataclasses import dataclass, field

import zmq
from zmq.utils.monitor import parse_monitor_message

_EVENTS = (
    zmq.EVENT_ACCEPTED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_MONITOR_STOPPED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
_FAILURES = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL,
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL,
    zmq.EVENT_HANDSHAKE_FAILED_AUTH,
)


def watch_connections(watched: "zmq.Socket[bytes]") -> "zmq.Socket[bytes]":
    """Returns the socket on which the events of another socket arrive."""
    return watched.get_monitor_socket(_EVENTS)


@dataclass(slots=True)
class ConnectionEvents:
    """What the events of a socket say; for one thread.

    Attributes:
        refused: Accepted connections that ended before a handshake.
        failures: Handshakes that have failed since the last one that succeeded.
        succeeded: Handshakes that succeeded.
        ended: Connections that have ended, with a handshake or without.
        is_lost: Whether a connection has ended after its handshake.
        is_stopped: Whether no more events come.
    """

    refused: int = 0
    failures: int = 0
    succeeded: int = 0
    ended: int = 0
    is_lost: bool = False
    is_stopped: bool = False
    _accepted: dict[int, int] = field(default_factory=dict)

    def receive_event(self, monitor: "zmq.Socket[bytes]") -> None:
        """Takes the next event; waits for it."""
        event = parse_monitor_message(monitor.recv_multipart())
        kind, value = event["event"], event["value"]
        if kind == zmq.EVENT_ACCEPTED:
            self._accepted[value] = self.succeeded
        elif kind == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self.succeeded += 1
            self.failures = 0
        elif kind == zmq.EVENT_DISCONNECTED:
            self.ended += 1
            self._ended(value)
        elif kind in _FAILURES:
            self.failures += 1
        elif kind == zmq.EVENT_MONITOR_STOPPED:
            self.is_stopped = True

    def _ended(self, descriptor: int) -> None:
        # The event of a handshake does not say of which connection it was. One that
        # ends without any handshake since it was accepted had none.
        before = self._accepted.pop(descriptor, None)
        if before is not None and before == self.succeeded:
            self.refused += 1
        if not self.failures and self.succeeded:
            self.is_lost = True
