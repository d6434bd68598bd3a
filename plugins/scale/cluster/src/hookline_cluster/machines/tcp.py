"""Two `Transport`s between machines: over ZMQ on one TCP port, encrypted by CURVE.

The head node listens (`TcpHub`), and every engine of another machine connects to it
(`TcpLink`), so that only the head node needs an open port. ZMQ's own thread sends
heartbeats: a connection whose peer is silent for `LINK_TIMEOUT_SECONDS` is closed,
however long a step lasts.
"""

import logging
import secrets
import threading
from collections.abc import Callable
from dataclasses import replace

import zmq

from hookline.exceptions import ConfigError
from hookline_cluster.machines.client_relay import ClientRelay, client_label
from hookline_cluster.machines.endpoint import Endpoint
from hookline_cluster.machines.link_keys import LinkKeys
from hookline_cluster.machines.link_monitor import ConnectionEvents, watch_connections
from hookline_cluster.machines.zap import Gatekeeper
from hookline_process_engine.ipc import LARGEST_FRAME
from hookline_process_engine.transport import Party, Role

HEARTBEAT_SECONDS = 1.0
LINK_TIMEOUT_SECONDS = 5.0
"""Silence after which a connection counts as lost."""
HANDSHAKE_SECONDS = 5.0
"""Time in which a connection must have proved its key."""
MOST_FRAMES = 10_000
"""Maximum number of frames queued for one engine; beyond it, the engine is lost."""
_RECONNECT_SECONDS = 0.5
_END_SECONDS = 3.0
_HEAD = Party(Role.CLIENT, 0)
_FRAMES_TO_SECONDARY = 2
"""A secondary client's label, and the frame for it."""
_log = logging.getLogger(__name__)


class TcpHub:
    """The head node's inbox for all engines, and an outbox for each.

    Addresses of peers are the routing ids of their connections, as `origin` tells them.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        keys: LinkKeys,
        relay: ClientRelay | None = None,
    ) -> None:
        """Listens.

        Args:
            endpoint: Where to listen.
            keys: Keys of both ends, which encrypt and authenticate.
            relay: Where frames of and to secondary clients go; None if there are none.

        Raises:
            ConfigError: The port is in use, or the address is not this machine's.
        """
        self._context = zmq.Context(io_threads=1)
        self._router = _make_socket(self._context, zmq.ROUTER)
        self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._router.setsockopt(zmq.ROUTER_HANDOVER, 1)
        self._gate = Gatekeeper(self._context, keys.engine.public)
        self._router.curve_server = True
        self._router.curve_publickey = keys.head.public
        self._router.curve_secretkey = keys.head.secret
        self._monitor = watch_connections(self._router)
        self._events = ConnectionEvents()
        self._bind(endpoint)
        bound = self._router.getsockopt_string(zmq.LAST_ENDPOINT)
        self._endpoint = replace(endpoint, port=int(bound.rpartition(":")[2]))
        # Sockets of ZMQ are for one thread at a time: the receiving thread owns the
        # router, and gets the frames of other threads through a pipe.
        self._outbox, self._pipe = _make_pipe(self._context)
        self._relay = relay
        self._lock = threading.Lock()
        self._peers: dict[Party, bytes] = {}
        self._lost: dict[Party, str] = {}
        self._origin = b""
        self._poller = self._make_poller()

    @property
    def address(self) -> str:
        return str(self._endpoint)

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return self._endpoint.port

    @property
    def origin(self) -> str:
        """Address of the sender of the latest frame; for the receiving thread."""
        return self._origin.hex()

    @property
    def refused(self) -> int:
        """Connections that ended before they had proved a key."""
        return self._events.refused

    @property
    def num_ended(self) -> int:
        """Number of connections that have ended, of strangers too."""
        return self._events.ended

    def connect(self, peer: Party, address: str, *, max_waiting: int) -> None:
        del max_waiting  # the same for all engines
        with self._lock:
            self._peers[peer] = bytes.fromhex(address)
            self._lost.pop(peer, None)

    def disconnect(self, peer: Party) -> None:
        with self._lock:
            self._peers.pop(peer, None)
            self._lost.pop(peer, None)

    def lost(self, peer: Party) -> str | None:
        """Why a peer's connection is lost, in one clause; None as far as is known.

        A lost connection is noticed when a frame is sent.
        """
        return self._lost.get(peer)

    def send(self, peer: Party, frame: bytearray, *, waits: bool) -> bool:
        del waits  # the receiving thread finds out whether there is room
        with self._lock:
            if (routing_id := self._peers.get(peer)) is None:
                return False
            self._outbox.send_multipart([routing_id, frame])
        return True

    def receive(self, timeout_seconds: float) -> bytes | None:
        ready = dict(self._poller.poll(round(timeout_seconds * 1000)))
        if self._relay is not None:
            self._relay.transport.keep_address()
        if self._pipe in ready:
            self._forward()
        if self._gate.socket in ready:
            self._gate.answer()
        if self._monitor in ready:
            self._events.receive_event(self._monitor)
        if self._relay is not None and self._relay.inbox in ready:
            self._relay_to_engine(self._relay)
        if self._router not in ready:
            return None
        self._origin, *frames = self._router.recv_multipart()
        if self._relay is not None and len(frames) == _FRAMES_TO_SECONDARY:
            if self._origin in self._peers.values():
                self._relay.pass_on(*frames)
            return None
        return frames[0] if len(frames) == 1 else b""

    def flush(self) -> None:
        """Passes on what other threads, or this one, have sent; for the receiving one.

        `receive` does so, too, when it is called.
        """
        while self._pipe.poll(0):
            self._forward()

    def close(self, linger_seconds: float = 0.0) -> None:
        if self._context.closed:
            return
        if linger_seconds:
            self.flush()
        self._router.disable_monitor()
        _end(self._context, linger_seconds)

    def _bind(self, endpoint: Endpoint) -> None:
        try:
            self._router.bind(str(endpoint))
        except zmq.ZMQError as error:
            self._router.disable_monitor()
            self._context.destroy(linger=0)
            raise ConfigError(
                "data-parallel-rpc-port",
                f"cannot listen on {endpoint}: {error.strerror}",
            ) from error

    def _make_poller(self) -> zmq.Poller:
        poller = zmq.Poller()
        for each in (self._router, self._pipe, self._monitor, self._gate.socket):
            poller.register(each, zmq.POLLIN)
        if self._relay is not None:
            poller.register(self._relay.inbox, zmq.POLLIN)
        return poller

    def _relay_to_engine(self, relay: ClientRelay) -> None:
        if (taken := relay.next_frame()) is None:
            return
        engine, frame = taken
        with self._lock:
            routing_id = self._peers.get(engine)
        if routing_id is not None:
            self._pass(routing_id, frame)

    def _forward(self) -> None:
        """Passes a frame of another thread to the connection it is for."""
        self._pass(*self._pipe.recv_multipart())

    def _pass(self, routing_id: bytes, frame: bytes) -> None:
        try:
            self._router.send_multipart([routing_id, frame], zmq.NOBLOCK)
        except zmq.Again:
            self._lose(routing_id, f"{MOST_FRAMES} messages to it wait")
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            self._lose(routing_id, "its connection is lost")

    def _lose(self, routing_id: bytes, reason: str) -> None:
        with self._lock:
            for peer, known in self._peers.items():
                if known == routing_id:
                    self._lost.setdefault(peer, reason)


class TcpLink:
    """An engine's connection to the head node, which passes frames on to other clients.

    For one thread. A thread of its own follows the connection.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        keys: LinkKeys,
        *,
        max_waiting: int,
        on_lost: Callable[[], None],
    ) -> None:
        """Connects, in the background and again and again.

        Args:
            endpoint: Where the head node listens.
            keys: Keys of both ends, which encrypt and authenticate.
            max_waiting: Maximum number of frames that wait to be sent.
            on_lost: Called in a thread when the connection is lost; what was under way
                is then lost, too.
        """
        self._address = str(endpoint)
        self._context = zmq.Context(io_threads=1)
        self._socket = _make_socket(self._context, zmq.DEALER, max_waiting)
        self._socket.setsockopt(zmq.ROUTING_ID, b"e" + secrets.token_bytes(8))
        self._socket.setsockopt(zmq.IMMEDIATE, 1)  # nothing waits for a new connection
        self._socket.setsockopt(zmq.RECONNECT_IVL, round(_RECONNECT_SECONDS * 1000))
        self._socket.curve_serverkey = keys.head.public
        self._socket.curve_publickey = keys.engine.public
        self._socket.curve_secretkey = keys.engine.secret
        self._events = ConnectionEvents()
        self._on_lost = on_lost
        monitor = watch_connections(self._socket)
        self._watcher = threading.Thread(
            target=self._watch, args=[monitor], name="hookline-link", daemon=True
        )
        self._watcher.start()
        self._socket.connect(self._address)

    @property
    def address(self) -> str:
        return self._address

    @property
    def failures(self) -> int:
        """Handshakes that have failed one after another."""
        return self._events.failures

    def expect_end(self) -> None:
        """Has the end of the connection be no loss any more."""
        self._on_lost = _ignore

    def connect(self, peer: Party, address: str, *, max_waiting: int) -> None:
        """Does nothing: it is connected to the head node."""

    def disconnect(self, peer: Party) -> None:
        """Does nothing: it stays connected until it is closed."""

    def send(self, peer: Party, frame: bytearray, *, waits: bool) -> bool:
        if peer != _HEAD:
            # All share the connection: if it is slow, it is no client's fault.
            self._socket.send_multipart([client_label(peer), frame])
            return True
        try:
            self._socket.send(frame, 0 if waits else zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def receive(self, timeout_seconds: float) -> bytes | None:
        if not self._socket.poll(round(timeout_seconds * 1000)):
            return None
        return self._socket.recv()

    def close(self, linger_seconds: float = 0.0) -> None:
        if not self._context.closed:
            self.expect_end()
            self._socket.disable_monitor()
            self._watcher.join(_END_SECONDS)  # it owns the socket of the events
            _end(self._context, linger_seconds)

    def _watch(self, monitor: "zmq.Socket[bytes]") -> None:
        # Until the last event, because ZMQ's own thread waits until each is taken.
        while not self._events.is_stopped:
            self._events.receive_event(monitor)
            if self._events.is_lost:
                on_lost, self._on_lost = self._on_lost, _ignore
                on_lost()
        monitor.close(linger=0)


def _end(context: "zmq.Context[zmq.Socket[bytes]]", linger_seconds: float) -> None:
    """Closes all sockets and ends ZMQ's threads, in bounded time.

    ZMQ has been seen to wait for ever when connections broke at the same time.
    """
    linger = round(linger_seconds * 1000)
    ending = threading.Thread(target=context.destroy, args=[linger], daemon=True)
    ending.start()
    ending.join(linger_seconds + _END_SECONDS)
    if ending.is_alive():
        _log.warning("connections to other machines were abandoned, not closed")


def _ignore() -> None:
    """Takes the place of a callback once nobody wants it."""


def _make_socket(
    context: "zmq.Context[zmq.Socket[bytes]]", kind: int, max_waiting: int = MOST_FRAMES
) -> "zmq.Socket[bytes]":
    made: zmq.Socket[bytes] = context.socket(kind)
    made.set_hwm(max_waiting)
    made.setsockopt(zmq.MAXMSGSIZE, LARGEST_FRAME)
    made.setsockopt(zmq.IPV6, 1)
    made.setsockopt(zmq.HANDSHAKE_IVL, round(HANDSHAKE_SECONDS * 1000))
    made.setsockopt(zmq.HEARTBEAT_IVL, round(HEARTBEAT_SECONDS * 1000))
    made.setsockopt(zmq.HEARTBEAT_TIMEOUT, round(LINK_TIMEOUT_SECONDS * 1000))
    return made


def _make_pipe(
    context: "zmq.Context[zmq.Socket[bytes]]",
) -> "tuple[zmq.Socket[bytes], zmq.Socket[bytes]]":
    """Returns both ends of a pipe between threads, without a bound of its own.

    What waits in it is bounded by open requests, as in an outbox to a local engine.
    """
    reading: zmq.Socket[bytes] = context.socket(zmq.PULL)
    writing: zmq.Socket[bytes] = context.socket(zmq.PUSH)
    for each in (reading, writing):
        each.set_hwm(0)
    reading.bind("inproc://outbox")
    writing.connect("inproc://outbox")
    return writing, reading
