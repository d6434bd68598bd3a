"""A thread that owns the sockets: publishes batches and replays recent ones."""

import logging
import socket
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import replace

import zmq

from hookline.config.engine import path_of_engine
from hookline.exceptions import ConfigError
from hookline_kv_events.config import (
    LOOPBACK,
    OPTION,
    TCP,
    KVEventsConfig,
    tcp_address,
)
from hookline_processes.addresses import AddressError, bracketed, numeric

END = (-1).to_bytes(8, "big", signed=True)
"""Sequence number that ends a replay."""
_WAKE = "inproc://wake"
_MOST_BYTES = 1 << 10
_HANDSHAKE_MS = 5000
_CLOSE_SECONDS = 1.0

logger = logging.getLogger(__name__)


class Publisher:
    """Publishes and replays the batches of one engine.

    A message has three frames: the topic, the sequence number (8 bytes, big-endian) and
    the batch. A subscriber that missed batches sends the first missing number to the
    replay socket. It receives (number, batch) for each batch still kept, then `END`
    with an empty batch.

    Attributes:
        dropped_batches: Number of batches dropped because the queue was full.
    """

    def __init__(self, config: KVEventsConfig, rank: int) -> None:
        """Binds the sockets and starts the thread.

        Raises:
            ConfigError: An address cannot be used.
        """
        self._topic = config.topic.encode()
        self._most_waiting = config.max_queue_size
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=config.buffer_steps)
        self._lock = threading.Lock()
        self.dropped_batches = 0
        self._context = zmq.Context()
        self._pub = self._context.socket(zmq.PUB)
        self._pub.set_hwm(config.hwm)
        self._replay = self._context.socket(zmq.ROUTER)
        # One slow client may have a whole replay in flight.
        self._replay.set_hwm(config.buffer_steps + 1)
        self._woken = self._context.socket(zmq.PAIR)
        self._woken.bind(_WAKE)
        self._waker = self._context.socket(zmq.PAIR)
        self._waker.connect(_WAKE)
        try:
            endpoint = config.endpoint
            is_bound = endpoint is None or _is_bound(endpoint)
            self._open(self._pub, endpoint or LOOPBACK, rank, binds=is_bound)
            if config.replay_endpoint is not None:
                self._open(self._replay, config.replay_endpoint, rank, binds=True)
            where = " and ".join(filter(None, self.endpoints))
            logger.info("KV events of engine %d are at %s", rank, where)
        except ConfigError:
            self._context.destroy(linger=0)
            raise
        self._thread = threading.Thread(
            target=self._run, name="hookline-kv-events", daemon=True
        )
        self._thread.start()

    @property
    def endpoints(self) -> tuple[str, str]:
        """Addresses of the publish and replay sockets; empty if not bound."""
        found = (each.getsockopt_string(zmq.LAST_ENDPOINT) for each in self._sockets)
        first, second = (each.rstrip("\0") for each in found)
        return first, second

    @property
    def _sockets(self) -> "tuple[zmq.Socket[bytes], zmq.Socket[bytes]]":
        return self._pub, self._replay

    def publish(self, sequence: int, payload: bytes) -> None:
        """Queues a batch for publication; does not block."""
        with self._lock:
            if len(self._waiting) == self._most_waiting:
                self._waiting.popleft()
                self.dropped_batches += 1
            self._waiting.append((sequence, payload))
            is_first = len(self._waiting) == 1
        if is_first:
            self._waker.send(b"")

    def close(self) -> None:
        """Publishes queued batches for at most a second and ends the thread."""
        if self._context.closed:
            return
        self._waker.send(b"end")
        self._thread.join(_CLOSE_SECONDS)
        self._context.destroy(linger=0)

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._woken, zmq.POLLIN)
        poller.register(self._replay, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if self._woken in ready:
                is_end = bool(self._woken.recv())
                self._publish_waiting()
                if is_end:
                    for each in self._sockets:
                        each.close(linger=round(_CLOSE_SECONDS * 1000))
                    return
            if self._replay in ready:
                self._answer(self._replay.recv_multipart())

    def _publish_waiting(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    return
                sequence, payload = self._waiting.popleft()
            number = sequence.to_bytes(8, "big")
            self._pub.send_multipart((self._topic, number, payload))
            self._kept.append((sequence, payload))

    def _answer(self, frames: list[bytes]) -> None:
        """Replays batches to a REQ socket, or a DEALER with or without empty frame."""
        *way, request = frames
        if len(request) != 8 or len(way) not in {1, 2}:
            return
        first = int.from_bytes(request, "big")
        for sequence, payload in self._kept:
            if sequence >= first:
                number = sequence.to_bytes(8, "big")
                self._replay.send_multipart((*way, number, payload))
        self._replay.send_multipart((*way, END, b""))

    def _open(
        self,
        opened: "zmq.Socket[bytes]",
        endpoint: str,
        rank: int,
        *,
        binds: bool,
    ) -> None:
        # Peers send topics and numbers only, and soon after they have connected.
        opened.setsockopt(zmq.MAXMSGSIZE, _MOST_BYTES)
        opened.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
        try:
            address = address_of(endpoint, rank)
            opened.setsockopt(zmq.IPV6, int(_is_ipv6(address)))
            if not binds:
                opened.connect(address)
                return
            if is_wide(address):
                logger.warning(
                    "KV events listen on %s without authentication: whoever "
                    "reaches it can read prompts and outputs as token ids",
                    address,
                )
            opened.bind(_bindable(address))
        except (AddressError, zmq.ZMQError) as error:
            raise ConfigError(OPTION, f"{endpoint} cannot be used: {error}") from error


def open_publishers(config: KVEventsConfig, ranks: Iterable[int]) -> list[Publisher]:
    """Opens a publisher for each engine, or none.

    Raises:
        ConfigError: An address cannot be used.
    """
    opened: list[Publisher] = []
    try:
        for rank in ranks:
            opened.append(Publisher(config, rank))  # noqa: PERF401 - closed if one fails
    except ConfigError:
        for each in opened:
            each.close()
        raise
    return opened


def address_of(endpoint: str, rank: int) -> str:
    """Returns an engine's address: the rank added to the port, or to the name.

    Raises:
        AddressError: There is no such port.
    """
    if not endpoint.startswith(TCP):
        return path_of_engine(endpoint, rank)
    place = tcp_address(endpoint, rank)
    return f"{TCP}{bracketed(place.host)}:{place.port or '*'}"


def is_wide(address: str) -> bool:
    """Whether a bound address can be reached from other machines."""
    if not address.startswith(TCP):
        return False
    place = tcp_address(address)
    return not (place.is_loopback or place.host == "lo")


def _is_bound(endpoint: str) -> bool:
    """Whether vLLM binds an endpoint, instead of connecting to it."""
    return not endpoint.startswith(TCP) or "*" in endpoint or "::" in endpoint


def _is_ipv6(address: str) -> bool:
    """Whether a socket needs IPv6: its addresses of IPv4 are then those of IPv6."""
    if not address.startswith(TCP):
        return False
    host = tcp_address(address).host
    if host == "*" or _is_interface(host):
        return host == "*"
    try:
        return ":" in numeric(host)
    except AddressError:  # a subscriber's name that is not known yet
        return False


def _is_interface(host: str) -> bool:
    return host in (name for _, name in socket.if_nameindex())


def _bindable(address: str) -> str:
    """Returns an address that ZMQ binds: it resolves no names for that."""
    if not address.startswith(TCP):
        return address
    place = tcp_address(address)
    if place.host == "*" or _is_interface(place.host):
        return address
    return address_of(TCP + str(replace(place, host=numeric(place.host))), 0)
