"""A rank's end of its connection to the executor on another machine."""

import os
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from hookline import __version__
from hookline.config import EngineConfig
from hookline.exceptions import RankError
from hookline.model_description import find_folder
from hookline_cluster.machines.endpoint import Endpoint
from hookline_cluster.machines.folder_digest import digest_of_folder
from hookline_cluster.machines.link_keys import LinkKeys
from hookline_cluster.machines.tcp import TcpLink
from hookline_cluster.ranks.rank_messages import (
    Answered,
    Counted,
    Hello,
    Ordered,
    RankEnlistment,
    StoreOpened,
    ToExecutor,
    ToRank,
)
from hookline_process_engine.transport import Party, Role

if TYPE_CHECKING:  # it needs torch, which a rank imports once it is told to
    from hookline_ranks.parallel_groups import ParallelGroups

CONNECT_SECONDS = 60.0
"""Time in which a rank must have reached the executor, which is there already."""
_AGAIN_SECONDS = 0.05
_LOOK_SECONDS = 1.0
_MOST_FRAMES = 1000
"""Maximum number of frames that wait on either side; a rank answers each order."""
_MEET_SECONDS = 600.0
_EXECUTOR = Party(Role.CLIENT, 0)


class ConnectedEnd:
    """Implements `RankEnd` over a connection, and the group of ranks over gloo."""

    def __init__(self, enlisted: RankEnlistment, on_lost: Callable[[], None]) -> None:
        """Connects to the executor and says hello.

        Args:
            enlisted: Who the rank is, and where the executor listens.
            on_lost: Called in a thread when the connection is lost.

        Raises:
            ModelLoadError: The model is not on this machine.
            RankError: The executor cannot be reached.
        """
        self.rank, self.ranks_here = enlisted.rank, enlisted.ranks_here
        self.is_output = enlisted.rank == enlisted.output_rank
        self.orders = self.answers = self
        self._enlisted = enlisted
        self._store: StoreOpened | None = None
        self._waiting: deque[bytes] = deque()
        self._counted = 0
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(ToRank)
        digest = digest_of_folder(find_folder(enlisted.model))
        keys = LinkKeys.derive(enlisted.secret)
        endpoint = Endpoint(enlisted.host, enlisted.port)
        self._link = TcpLink(endpoint, keys, max_waiting=_MOST_FRAMES, on_lost=on_lost)
        host, own = socket.gethostname(), __version__
        self._say_hello(Hello(self.rank, host, os.getpid(), own, digest))

    def read(self, timeout_seconds: float | None) -> bytes | None:
        """Implements `MessageReader`: the executor's next order."""
        if not self._waiting:
            self._receive(_LOOK_SECONDS if timeout_seconds is None else timeout_seconds)
        return self._waiting.popleft() if self._waiting else None

    def write(self, message: bytes, check: Callable[[], None]) -> None:
        """Implements `MessageWriter`: an answer, behind what it has counted."""
        del check  # there is room: the executor orders no more than it reads answers
        self.end_step()
        self._send(Answered(message))

    def join_groups(self, config: EngineConfig) -> "ParallelGroups":
        """Implements `RankEnd`: meets the others where the first rank says."""
        from hookline_ranks.parallel_groups import ParallelGroups  # noqa: PLC0415
        from hookline_ranks.processes.gloo import host_store, reach_store  # noqa: PLC0415
        from hookline_ranks.processes.groups_over_gloo import groups_over_gloo  # noqa: PLC0415

        if config.parallel.world_size == 1:
            return ParallelGroups()
        address = self._enlisted.address
        hosted = host_store(address) if self.rank == 0 else None
        if hosted is not None:
            self._store = StoreOpened(address, hosted.port)
            self._send(self._store)
        found = self._await_store()
        return groups_over_gloo(
            config,
            reach_store(found.address, found.port),
            address=address,
            count_expert_tokens=self._count,
        )

    def end_step(self) -> None:
        """Implements `RankEnd`."""
        if self._counted:
            self._send(Counted(self._counted))
            self._counted = 0

    def close(self) -> None:
        """Sends what waits, for a moment, and closes the connection."""
        self._link.close(_LOOK_SECONDS)

    def _count(self, tokens: int) -> None:
        self._counted += tokens

    def _say_hello(self, hello: Hello) -> None:
        frame = bytearray(self._encoder.encode(hello))
        deadline = time.monotonic() + CONNECT_SECONDS
        while not self._link.send(_EXECUTOR, frame, waits=False):
            if time.monotonic() > deadline:
                raise RankError(
                    self.rank,
                    f"the executor at {self._link.address} cannot be reached from "
                    f"{hello.host}",
                )
            time.sleep(_AGAIN_SECONDS)

    def _await_store(self) -> StoreOpened:
        deadline = time.monotonic() + _MEET_SECONDS
        while self._store is None:
            if time.monotonic() > deadline:
                raise RankError(
                    self.rank, "it did not receive the address of the meeting"
                )
            self._receive(_LOOK_SECONDS)
        return self._store

    def _receive(self, timeout_seconds: float) -> None:
        """Waits for a message, and keeps it if it means something."""
        if (frame := self._link.receive(timeout_seconds)) is None:
            return
        message = self._decoder.decode(frame)
        if isinstance(message, Ordered):
            self._waiting.append(message.order)
        elif isinstance(message, StoreOpened):
            self._store = message

    def _send(self, message: ToExecutor) -> None:
        frame = bytearray(self._encoder.encode(message))
        self._link.send(_EXECUTOR, frame, waits=True)
