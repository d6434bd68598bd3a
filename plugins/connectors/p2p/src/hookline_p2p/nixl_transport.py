"""Sends blocks by NIXL between registered memory of engines, messages by ZMQ.

The sender copies frames into a slot of registered memory and sends their address by
ZMQ. The receiver reads them into its own slot and confirms, which frees the sender's
slot. Source: NIXL's Python API, https://docs.nvidia.com/nixl.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, Protocol, cast

import msgspec
import numpy as np

from hookline.exceptions import ConfigError
from hookline_kv_transfer.blocks import Bytes
from hookline_kv_transfer.config import OPTION
from hookline_p2p.options import P2POptions
from hookline_p2p.transport import CHUNK_BYTES, Message, Peer, Refusals, Visitor
from hookline_p2p.zmq_transport import ZmqTransport
from hookline_registry import Failure, isolate

_BACKENDS = ["UCX"]
_MEMORY = "DRAM"
_POLL_SECONDS = 0.0005
"""Polling interval during reads: NIXL has no notification to wait for."""

_LEASE_TIMEOUTS = 4
"""Peer timeouts after which an unconfirmed slot is reused. A late reader of the slot
finds wrong checksums."""

State = Literal["DONE", "PROC", "ERR"]
Region = tuple[int, int, int]
"""Address, bytes, device."""


class Agent(Protocol):
    """The part of NIXL's agent that is used."""

    def register_memory(
        self, reg_list: list[tuple[int, int, int, str]], mem_type: str
    ) -> object: ...
    def deregister_memory(self, dereg_list: object) -> None: ...
    def get_agent_metadata(self) -> bytes: ...
    def add_remote_agent(self, metadata: bytes) -> object: ...
    def remove_remote_agent(self, agent: str) -> None: ...
    def get_xfer_descs(self, descs: list[Region], mem_type: str) -> object: ...
    def initialize_xfer(
        self,
        operation: str,
        local_descs: object,
        remote_descs: object,
        remote_agent: str,
    ) -> object: ...
    def transfer(self, handle: object) -> State: ...
    def check_xfer_state(self, handle: object) -> State: ...
    def release_xfer_handle(self, handle: object) -> None: ...


class Plain(msgspec.Struct, array_like=True, tag="plain", frozen=True):
    """A message without frames."""

    header: bytes


class Bulk(msgspec.Struct, array_like=True, tag="bulk", frozen=True):
    """A message with frames to read from the sender's memory.

    Attributes:
        engine_id: Id of the sender, also its agent's name.
        metadata: Metadata of the sender's agent.
        ticket: Number to confirm the read with.
        address: Address of the frames, which are contiguous.
        sizes: Size of each frame in bytes.
        header: Header of the message.
    """

    engine_id: str
    metadata: bytes
    ticket: int
    address: int
    sizes: list[int]
    header: bytes


class Taken(msgspec.Struct, array_like=True, tag="taken", frozen=True):
    """Confirms that frames were read or will not be."""

    ticket: int


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Plain | Bulk | Taken)


class Slots:
    """Registered memory divided into slots of equal size."""

    def __init__(self, agent: Agent, total_bytes: int, slot_bytes: int) -> None:
        count = max(2, total_bytes // slot_bytes)
        self._memory: Bytes = np.zeros((count, slot_bytes), np.uint8)
        address, size = self._memory.ctypes.data, self._memory.nbytes
        self._registered = agent.register_memory([(address, size, 0, "")], _MEMORY)
        self._agent = agent
        self._free = list(range(len(self._memory)))

    def allocate(self) -> int | None:
        """Allocates a slot; None if all are in use."""
        return self._free.pop() if self._free else None

    def give_back(self, slot: int) -> None:
        self._free.append(slot)

    def __getitem__(self, slot: int) -> Bytes:
        found: Bytes = self._memory[slot]
        return found

    def close(self) -> None:
        isolate(self._agent.deregister_memory, self._registered)


@dataclass(frozen=True, slots=True)
class _Reading:
    """A read of frames into a slot."""

    bulk: Bulk
    sender: Peer | Visitor
    slot: int
    handle: object


class NixlTransport:
    """A transport that sends blocks by NIXL and messages by ZMQ."""

    def __init__(self, options: P2POptions) -> None:
        """Imports NIXL.

        Raises:
            ConfigError: NIXL is not installed.
        """
        try:
            self._nixl = import_module("nixl._api")
        except ImportError as error:
            raise ConfigError(
                OPTION, "p2p's transport nixl needs NIXL: pip install nixl"
            ) from error
        self._options = options
        self._words = ZmqTransport(options)
        self._tickets: dict[int, tuple[int, float]] = {}
        self._last_ticket = 0
        self._readings: list[_Reading] = []
        self._known: set[str] = set()

    def listen(self, engine_id: str, layout_bytes: int) -> int:
        port = self._words.listen(engine_id, layout_bytes)
        outcome = isolate(self._start_agent, engine_id, layout_bytes)
        if isinstance(outcome, Failure):
            self._words.close()
            raise ConfigError(
                OPTION, f"NIXL failed to start: {outcome.summary}"
            ) from outcome.error
        return port

    def _start_agent(self, engine_id: str, layout_bytes: int) -> None:
        config = self._nixl.nixl_agent_config(backends=_BACKENDS)
        self._agent = cast("Agent", self._nixl.nixl_agent(engine_id, config))
        self._engine_id = engine_id
        total = self._options.max_in_flight_bytes
        slot_bytes = max(CHUNK_BYTES, layout_bytes)
        self._outgoing = Slots(self._agent, total, slot_bytes)
        self._incoming = Slots(self._agent, total, slot_bytes)
        self._metadata = self._agent.get_agent_metadata()

    def send(
        self, to: Peer | Visitor, header: bytes, frames: Sequence[Bytes] = ()
    ) -> bool:
        if not frames:
            return self._words.send(to, _encode(Plain(header)))
        self._end_leases()
        if (slot := self._outgoing.allocate()) is None:
            return False
        memory, start = self._outgoing[slot], 0
        for frame in frames:
            memory[start : start + frame.nbytes] = frame.reshape(-1)
            start += frame.nbytes
        self._last_ticket += 1
        self._tickets[self._last_ticket] = slot, time.monotonic()
        bulk = Bulk(
            self._engine_id,
            self._metadata,
            self._last_ticket,
            memory.ctypes.data,
            [frame.nbytes for frame in frames],
            header,
        )
        if self._words.send(to, _encode(bulk)):
            return True
        self._taken(self._last_ticket)
        return False

    def poll(self, timeout_seconds: float) -> Sequence[Message]:
        if self._readings:
            timeout_seconds = min(timeout_seconds, _POLL_SECONDS)
        found = []
        for message in self._words.poll(timeout_seconds):
            try:
                word = _decoder.decode(message.header)
            except (ValueError, RecursionError):  # bad UTF-8, too
                found.append(message)  # the caller counts it as malformed
                continue
            if isinstance(word, Plain):
                found.append(Message(message.sender, word.header))
            elif isinstance(word, Taken):
                self._taken(word.ticket)
            else:
                self._begin(message.sender, word)
        found += self._ended()
        return found

    def refusals(self) -> Refusals:
        return self._words.refusals()

    def forget(self, peer: Peer) -> None:
        self._words.forget(peer)
        if peer.engine_id in self._known:
            self._known.discard(peer.engine_id)
            isolate(self._agent.remove_remote_agent, peer.engine_id)

    def wake(self) -> None:
        self._words.wake()

    def close(self) -> None:
        for reading in self._readings:
            isolate(self._agent.release_xfer_handle, reading.handle)
        self._outgoing.close()
        self._incoming.close()
        self._words.close()

    def _taken(self, ticket: int) -> None:
        slot, _ = self._tickets.pop(ticket, (None, 0.0))
        if slot is not None:
            self._outgoing.give_back(slot)

    def _end_leases(self) -> None:
        lease = _LEASE_TIMEOUTS * self._options.peer_timeout_seconds
        oldest = time.monotonic() - lease
        for ticket, (_, sent_at) in list(self._tickets.items()):
            if sent_at > oldest:
                return
            self._taken(ticket)

    def _begin(self, sender: Peer | Visitor, bulk: Bulk) -> None:
        """Starts to read frames; the consumer repeats requests that fail."""
        size, slot = sum(bulk.sizes), self._incoming.allocate()
        if slot is not None:
            fits = size <= self._incoming[slot].nbytes and min(bulk.sizes) >= 0
            handle = isolate(self._start_reading, bulk, slot, size) if fits else None
            if handle is not None and not isinstance(handle, Failure):
                self._readings.append(_Reading(bulk, sender, slot, handle))
                return
            self._incoming.give_back(slot)
        self._words.send(sender, _encode(Taken(bulk.ticket)))

    def _start_reading(self, bulk: Bulk, slot: int, size: int) -> object:
        agent = self._agent
        if bulk.engine_id not in self._known:
            agent.add_remote_agent(bulk.metadata)
            self._known.add(bulk.engine_id)
        here = (self._incoming[slot].ctypes.data, size, 0)
        handle = agent.initialize_xfer(
            "READ",
            agent.get_xfer_descs([here], _MEMORY),
            agent.get_xfer_descs([(bulk.address, size, 0)], _MEMORY),
            bulk.engine_id,
        )
        agent.transfer(handle)
        return handle

    def _ended(self) -> list[Message]:
        found, still = [], []
        for reading in self._readings:
            state = isolate(self._agent.check_xfer_state, reading.handle)
            if state == "PROC":
                still.append(reading)
                continue
            if state == "DONE":
                found.append(self._message(reading))
            self._words.send(reading.sender, _encode(Taken(reading.bulk.ticket)))
            released = isolate(self._agent.release_xfer_handle, reading.handle)
            if not isinstance(
                released, Failure
            ):  # otherwise NIXL may still write to it
                self._incoming.give_back(reading.slot)
        self._readings = still
        return found

    def _message(self, reading: _Reading) -> Message:
        memory, frames, start = self._incoming[reading.slot], [], 0
        for size in reading.bulk.sizes:
            frames.append(memory[start : start + size].copy())
            start += size
        return Message(reading.sender, reading.bulk.header, frames)
