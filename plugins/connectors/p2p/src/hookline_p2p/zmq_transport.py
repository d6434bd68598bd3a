"""Sends messages over TCP with ZMQ: one listening socket, and one for each peer.

Every connection is encrypted and authenticated by CURVE. All engines
derive the same key pair from the secret; without it a client can neither pass the
handshake nor impersonate an engine. Fresh keys for each handshake prevent replay.
Sources: http://curvezmq.org, RFC 7914 (scrypt).
"""

import hashlib
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import zmq
from zmq.utils import z85
from zmq.utils.monitor import recv_monitor_message

from hookline.exceptions import ConfigError
from hookline_kv_transfer.blocks import Bytes
from hookline_kv_transfer.config import OPTION
from hookline_p2p.options import P2POptions
from hookline_p2p.transport import CHUNK_BYTES, Message, Peer, Refusals, Visitor
from hookline_processes.addresses import (
    AddressError,
    HostPort,
    bracketed,
    is_everywhere,
    numeric,
)

_MOST_HEADER = 8 << 20
_MOST_PEERS = 64
_MOST_MESSAGES = 64
"""Maximum messages received at once, so that other work is not starved."""
_IDLE_SECONDS = 60.0
_RECONNECT_MS, _LONGEST_RECONNECT_MS = 50, 1000
_FAILED = (
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_AUTH
)
_WATCHED = _FAILED | zmq.Event.HANDSHAKE_SUCCEEDED
_MOST_FAILURES = 2
"""Consecutive failed handshakes that count as a refusal; a single one may be chance."""

Socket = zmq.Socket[bytes]


@dataclass(slots=True)
class _Line:
    """The connection to a peer."""

    socket: Socket
    monitor: Socket
    used_at: float
    failures: int = 0


class ZmqTransport:
    """A transport with a ROUTER to listen and a DEALER to each active peer."""

    def __init__(self, options: P2POptions) -> None:
        self._options = options
        self._lines: dict[Peer, _Line] = {}
        self._swept_at = 0.0
        self._refused_visitors = 0
        self._refused_by: list[Peer] = []
        self._most_waiting = 16 + options.max_in_flight_bytes // CHUNK_BYTES
        self._keys = keys_of(options.link_secret)

    def listen(self, engine_id: str, layout_bytes: int) -> int:  # noqa: ARG002
        """Starts to listen, as `Transport` defines; a ROUTER names visitors itself."""
        self._most_bytes = max(CHUNK_BYTES, layout_bytes) + _MOST_HEADER
        self._context = zmq.Context()
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self._router = self._new_socket(zmq.ROUTER, self._options.host)
        self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._router.curve_server = True
        self._router.curve_secretkey, self._router.curve_publickey = self._keys
        self._monitor = self._router.get_monitor_socket(_WATCHED)
        self._poller = zmq.Poller()
        for each in (self._router, self._monitor, self._woken):
            self._poller.register(each, zmq.POLLIN)
        try:
            host = self._options.host  # ZMQ resolves no names for that
            numbers = host if is_everywhere(host) else numeric(host)
            self._router.setsockopt(zmq.IPV6, int(numbers == "*" or ":" in numbers))
            self._router.bind(_endpoint(numbers, self._options.port or "*"))
        except (AddressError, zmq.ZMQError) as error:
            self.close()
            where = HostPort(self._options.host, self._options.port)
            raise ConfigError(
                OPTION, f"p2p cannot listen on {where}: {error}"
            ) from error
        bound = self._router.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(bound, bytes)
        return int(bound.rstrip(b"\0").rpartition(b":")[2])

    def send(
        self, to: Peer | Visitor, header: bytes, frames: Sequence[Bytes] = ()
    ) -> bool:
        parts: list[bytes | memoryview] = [header, *(each.data for each in frames)]
        try:
            if isinstance(to, Visitor):
                self._router.send_multipart([to.route, *parts], zmq.NOBLOCK, copy=False)
                return True
            if (line := self._line(to)) is None:
                return False
            line.used_at = time.monotonic()
            line.socket.send_multipart(parts, zmq.NOBLOCK, copy=False)
        except zmq.ZMQError:  # full queue, disconnected visitor or invalid address
            return False
        return True

    def poll(self, timeout_seconds: float) -> Sequence[Message]:
        ready = dict(self._poller.poll(max(0, round(timeout_seconds * 1000))))
        found: list[Message] = []
        self._end_idle()
        if self._woken.fileno() in ready:
            with suppress(BlockingIOError):
                while self._woken.recv(4096):
                    pass
        if self._monitor in ready:
            self._refused_visitors += sum(
                bool(event & _FAILED) for event in _events(self._monitor)
            )
        if self._router in ready:
            for route, header, *frames in _receive(self._router, 2):
                found.append(_message(Visitor(route.bytes), header, frames))
        for peer, line in list(self._lines.items()):
            if line.monitor in ready:
                self._watch(peer, line)
            if line.socket in ready:
                line.used_at = time.monotonic()
                for header, *frames in _receive(line.socket, 1):
                    found.append(_message(peer, header, frames))
        return found

    def refusals(self) -> Refusals:
        found = Refusals(self._refused_visitors, tuple(self._refused_by))
        self._refused_visitors, self._refused_by = 0, []
        return found

    def forget(self, peer: Peer) -> None:
        if (line := self._lines.pop(peer, None)) is not None:
            self._poller.unregister(line.socket)
            self._poller.unregister(line.monitor)
            line.socket.disable_monitor()
            line.monitor.close(linger=0)
            line.socket.close(linger=0)

    def wake(self) -> None:
        with suppress(OSError):  # closed, or already woken
            self._waker.send(b"x")

    def close(self) -> None:
        for peer in list(self._lines):
            self.forget(peer)
        self._router.disable_monitor()
        self._monitor.close(linger=0)
        self._router.close(linger=0)
        self._context.term()
        self._woken.close()
        self._waker.close()

    def _line(self, peer: Peer) -> _Line | None:
        """Returns the connection to a peer, or None if there are too many."""
        if (line := self._lines.get(peer)) is not None:
            return line
        now = time.monotonic()
        if len(self._lines) >= _MOST_PEERS:
            return None
        made = self._new_socket(zmq.DEALER, peer.host)
        made.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
        made.setsockopt(zmq.RECONNECT_IVL_MAX, _LONGEST_RECONNECT_MS)
        made.curve_serverkey = self._keys[1]
        made.curve_publickey, made.curve_secretkey = zmq.curve_keypair()
        line = _Line(made, made.get_monitor_socket(_WATCHED), now)
        self._lines[peer] = line
        self._poller.register(made, zmq.POLLIN)
        self._poller.register(line.monitor, zmq.POLLIN)
        try:
            made.connect(_endpoint(peer.host, peer.port))
        except zmq.ZMQError:
            self.forget(peer)
            raise
        return line

    def _end_idle(self) -> None:
        now = time.monotonic()
        if now < self._swept_at + _IDLE_SECONDS / 4:
            return
        self._swept_at = now
        for peer, line in list(self._lines.items()):
            if line.used_at < now - _IDLE_SECONDS:
                self.forget(peer)

    def _watch(self, peer: Peer, line: _Line) -> None:
        for event in _events(line.monitor):
            line.failures = line.failures + 1 if event & _FAILED else 0
            is_refusal = event & _FAILED and (
                event != zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
            )
            if is_refusal or line.failures >= _MOST_FAILURES:
                self._refused_by.append(peer)
                self.forget(peer)
                return

    def _new_socket(self, kind: int, host: str) -> Socket:
        made: Socket = self._context.socket(kind)
        beat_ms = max(1, round(self._options.peer_timeout_seconds * 1000))
        for option, value in (
            (zmq.LINGER, 0),
            (zmq.SNDHWM, self._most_waiting),
            (zmq.RCVHWM, self._most_waiting),
            (zmq.MAXMSGSIZE, self._most_bytes),
            (zmq.HEARTBEAT_IVL, beat_ms),
            (zmq.HEARTBEAT_TIMEOUT, 2 * beat_ms),
            (zmq.HANDSHAKE_IVL, beat_ms),
            (zmq.IPV6, int(host == "*" or ":" in host)),  # then it has both
        ):
            made.setsockopt(option, value)
        return made


def keys_of(secret: bytes) -> tuple[bytes, bytes]:
    """Derives the engines' (secret, public) key pair; both keys are confidential.

    CURVE never sends the server's public key, so knowing it proves knowing the secret.
    """
    raw = hashlib.scrypt(secret, salt=b"hookline-p2p", n=1 << 14, r=8, p=1, dklen=32)
    private: bytes = z85.encode(raw)
    return private, zmq.curve_public(private)


def _endpoint(host: str, port: int | str) -> str:
    return f"tcp://{bracketed(host)}:{port}"


def _events(monitor: Socket) -> list[zmq.Event]:
    events = []
    while monitor.poll(0):
        events.append(zmq.Event(recv_monitor_message(monitor)["event"]))
    return events


def _receive(source: Socket, least: int) -> list[list[zmq.Frame]]:
    found: list[list[zmq.Frame]] = []
    with suppress(zmq.Again):
        while len(found) < _MOST_MESSAGES:
            parts = source.recv_multipart(zmq.NOBLOCK, copy=False)
            if len(parts) >= least:
                found.append(parts)
    return found


def _message(
    sender: Peer | Visitor, header: zmq.Frame, frames: Sequence[zmq.Frame]
) -> Message:
    arrays = [np.frombuffer(each.buffer, np.uint8) for each in frames]
    return Message(sender, header.bytes, arrays)
