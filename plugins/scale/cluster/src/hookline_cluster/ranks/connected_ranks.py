"""Ranks on several machines, each connected to their executor."""

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

import msgspec

from hookline import __version__
from hookline.config import EngineConfig
from hookline.exceptions import ConfigError, RankError
from hookline.model_description import find_folder
from hookline_cluster.config.cluster import ClusterConfig
from hookline_cluster.machines.endpoint import Endpoint
from hookline_cluster.machines.folder_digest import digest_of_folder
from hookline_cluster.machines.link_keys import LinkKeys
from hookline_cluster.machines.tcp import TcpHub
from hookline_cluster.ranks.rank_link import CONNECT_SECONDS
from hookline_cluster.ranks.rank_messages import (
    Answered,
    Counted,
    Hello,
    Ordered,
    Probe,
    RankEnlistment,
    StoreOpened,
    ToExecutor,
    ToRank,
)
from hookline_process_engine.transport import Party, Role

_SECRET_BYTES = 32
_LOOK_SECONDS = 0.1
"""How often the ranks are looked at while an answer is awaited."""
_PROBE_SECONDS, _PROBING_SECONDS = 0.05, 1.0
"""How often, and how long, all connections are tried after one has ended."""
_REASON_SECONDS = 0.5
"""How long the executor waits for a machine to tell why its rank was lost."""
_GRACE_SECONDS = 2.0
_END_SECONDS = 30.0
"""Time for the machines to end their ranks once one has ended."""
_log = logging.getLogger(__name__)


class RankEnded(NamedTuple):
    """A rank's process has ended, or could not be started.

    Attributes:
        rank: Index of the rank.
        reason: Why, in one clause.
    """

    rank: int
    reason: str


class RankNodes(Protocol):
    """Starts and ends the processes of ranks on other machines; for one thread.

    Attributes:
        address: Numeric address of this machine, as the others reach it.
    """

    address: str

    def start(self, enlisted: RankEnlistment) -> None:
        """Begins to start a rank's process, without waiting.

        It runs `hookline_cluster.ranks.connected_rank_process`. If it cannot be started
        within the join timeout, or ends, `take_end` tells so.

        Args:
            enlisted: What the process is told; its machine adds its own address.
        """
        ...

    def take_end(self) -> RankEnded | None:
        """Returns the end of a rank's process, once; does not wait."""
        ...

    def close(self) -> None:
        """Ends all processes, and gives their places back; may be called twice."""
        ...


class ConnectedRanks:
    """Implements `Ranks` over encrypted connections, all to one port of this machine.

    A rank counts as ended once its machine says so, or half a second after its
    connection is lost: a machine that still lives knows more. Then all ranks end.
    """

    def __init__(self, config: EngineConfig, nodes: RankNodes) -> None:
        """Starts the ranks and waits until all have said hello.

        Args:
            config: The engine's configuration.
            nodes: Starts the processes; closed with this object.

        Raises:
            ConfigError: A rank has another model or another version of Hookline.
            RankError: A rank has no place, has ended, or does not connect.
        """
        world = config.parallel.world_size
        self._nodes = nodes
        self._hellos: dict[int, Hello] = {}
        self._ranks_of: dict[str, int] = {}
        self._inboxes: list[deque[bytes]] = [deque() for _ in range(world)]
        self._failure: RankError | None = None
        self._ending: threading.Thread | None = None
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(ToExecutor)
        self.orders = self
        self.answers = [_Answers(self.read_answer, rank) for rank in range(world)]
        has_counts = config.parallel.enable_expert_parallel
        self.expert_counts = _Counts(world) if has_counts else None
        secret = secrets.token_bytes(_SECRET_BYTES)
        try:
            self._hub = TcpHub(Endpoint(nodes.address, 0), LinkKeys.derive(secret))
        except BaseException:
            nodes.close()
            raise
        self._connections = _Connections(self._hub, self._hellos)
        try:
            self._start(config, secret)
            self._await_hellos(config)
        except BaseException:
            self.close()
            raise
        hellos = [self._hellos[rank] for rank in range(world)]
        self.pids = tuple(each.pid for each in hellos)
        self.hosts = tuple(each.host for each in hellos)

    def write(self, message: bytes, check: Callable[[], None]) -> None:
        """Implements `MessageWriter`: the message goes to each rank that is left."""
        del check  # there is room: ranks take orders as long as they live
        self._send_all(Ordered(message))

    def read_answer(self, rank: int, timeout_seconds: float | None) -> bytes | None:
        """Waits for the next answer of a rank, as `MessageReader`."""
        inbox = self._inboxes[rank]
        wait = float("inf") if timeout_seconds is None else timeout_seconds
        end = time.monotonic() + wait
        while not inbox:
            self._look()
            left = end - time.monotonic()
            if self._turn(min(max(0.0, left), _LOOK_SECONDS)):
                continue
            if left <= 0 or self._failure is not None:
                return None
        return inbox.popleft()

    def find_failure(self) -> RankError | None:
        """Implements `Ranks`."""
        while self._turn(0.0):
            pass
        self._look()
        return self._failure

    def close(self) -> None:
        """Implements `Ranks`; ranks that were told to end have two seconds."""
        if self._ending is not None:
            self._ending.join(_END_SECONDS)
            if self._ending.is_alive():
                _log.error("the ranks' nodes have not ended in %g s", _END_SECONDS)
            return
        end = time.monotonic() + (_GRACE_SECONDS if self._hellos else 0.0)
        running = set(self._hellos)
        while running and time.monotonic() < end:
            self._turn(_PROBE_SECONDS)
            while (ended := self._nodes.take_end()) is not None:
                running.discard(ended.rank)
        self._nodes.close()
        self._hub.close()

    def _start(self, config: EngineConfig, secret: bytes) -> None:
        parallel = config.parallel
        for rank in range(parallel.world_size):
            self._nodes.start(
                RankEnlistment(
                    rank=rank,
                    world_size=parallel.world_size,
                    output_rank=parallel.output_rank,
                    model=config.model.model,
                    host=self._nodes.address,
                    port=self._hub.port,
                    secret=secret,
                )
            )

    def _await_hellos(self, config: EngineConfig) -> None:
        folder = find_folder(config.model.model)
        own = digest_of_folder(folder)
        seconds = ClusterConfig.of(config).machines.join_timeout + CONNECT_SECONDS
        end = time.monotonic() + seconds
        while len(self._hellos) < len(self._inboxes):
            self._turn(_LOOK_SECONDS)
            self._look()
            if self._failure is not None:
                raise self._failure
            if time.monotonic() > end:
                absent = min(set(range(len(self._inboxes))) - set(self._hellos))
                raise RankError(absent, f"it did not connect within {seconds:g} s")
        for hello in self._hellos.values():
            _check(hello, own)

    def _turn(self, timeout_seconds: float) -> bool:
        """Waits for a message and takes it; returns whether there was one."""
        if self._failure is not None:
            return False
        if (frame := self._hub.receive(timeout_seconds)) is None:
            return False
        try:
            message = self._decoder.decode(frame)
        except msgspec.MsgspecError as error:  # of another version, with the secret
            _log.warning("dropped a message of a rank: %s", error)
            return True
        if isinstance(message, Hello):
            self._welcome(message)
        elif (rank := self._ranks_of.get(self._hub.origin)) is not None:
            self._take(rank, message)
        return True

    def _welcome(self, hello: Hello) -> None:
        if 0 <= hello.rank < len(self._inboxes) and hello.rank not in self._hellos:
            self._hellos[hello.rank] = hello
            self._ranks_of[self._hub.origin] = hello.rank
            self._hub.connect(_party(hello.rank), self._hub.origin, max_waiting=0)

    def _take(self, rank: int, message: Answered | Counted | StoreOpened) -> None:
        if isinstance(message, Answered):
            self._inboxes[rank].append(message.answer)
        elif isinstance(message, StoreOpened):
            self._send_all(message)
        elif self.expert_counts is not None:
            self.expert_counts.add(rank, message.tokens)

    def _send_all(self, message: ToRank) -> None:
        if self._failure is not None:
            return
        frame = bytearray(self._encoder.encode(message))
        for rank in self._hellos:
            self._hub.send(_party(rank), frame, waits=False)
        self._hub.flush()

    def _look(self) -> None:
        """Finds out whether a rank has ended."""
        if self._failure is not None:
            return
        if (ended := self._nodes.take_end()) is not None:
            self._fail(RankError(ended.rank, ended.reason))
            return
        now = time.monotonic()
        if self._connections.must_probe(now):
            self._send_all(Probe())
            self._connections.look(now)
        if (rank := self._connections.find_lost(now)) is not None:
            host = self._hellos[rank].host
            self._fail(RankError(rank, f"the connection to {host} is lost"))

    def _fail(self, failure: RankError) -> None:
        """Ends all ranks; what they have said before is kept."""
        while self._turn(0.0):
            pass
        self._failure = failure
        self._ending = threading.Thread(
            target=self._nodes.close, name="hookline-ranks-end", daemon=True
        )
        self._ending.start()
        self._hub.close()


class _Connections:
    """Finds out which rank's connection is lost.

    Once any connection has ended, messages are sent over all of them for a while: that
    of a machine that is gone shows it only then.
    """

    def __init__(self, hub: TcpHub, ranks: Iterable[int]) -> None:
        """Has lost none.

        Args:
            hub: Has the connections.
            ranks: Those that are connected; may grow.
        """
        self._hub, self._ranks = hub, ranks
        self._lost_since: dict[int, float] = {}
        self._num_ended, self._probes_end, self._next_probe = 0, 0.0, 0.0

    def must_probe(self, now: float) -> bool:
        """Returns whether to send a probe to all ranks, and to look at them then."""
        if self._num_ended != self._hub.num_ended:
            self._num_ended = self._hub.num_ended
            self._probes_end = now + _PROBING_SECONDS
        if not self._next_probe < now < self._probes_end:
            return False
        self._next_probe = now + _PROBE_SECONDS
        return True

    def look(self, now: float) -> None:
        """Notes the ranks whose connection is lost now."""
        for rank in self._ranks:
            if self._hub.lost(_party(rank)) is not None:
                self._lost_since.setdefault(rank, now)

    def find_lost(self, now: float) -> int | None:
        """Returns a rank that was lost so long ago that its machine must have said."""
        for rank, since in self._lost_since.items():
            if now - since > _REASON_SECONDS:
                return rank
        return None


class _Answers:
    """The answers of one rank, as `MessageReader`."""

    def __init__(
        self, read: Callable[[int, float | None], bytes | None], rank: int
    ) -> None:
        self._read, self._rank = read, rank

    def read(self, timeout_seconds: float | None) -> bytes | None:
        return self._read(self._rank, timeout_seconds)


class _Counts:
    """What ranks say that their experts have computed, as `CountedTokens`.

    The output rank's result may arrive before what other ranks have counted of the same
    step; the next step then has it.
    """

    def __init__(self, num_ranks: int) -> None:
        self._counts = [0] * num_ranks

    def add(self, rank: int, tokens: int) -> None:
        self._counts[rank] += tokens

    def take(self) -> tuple[int, ...]:
        taken = tuple(self._counts)
        self._counts = [0] * len(taken)
        return taken


def _party(rank: int) -> Party:
    return Party(Role.ENGINE, rank)


def _check(hello: Hello, model_digest: str) -> None:
    """Raises `ConfigError` if a rank does not fit the executor."""
    if hello.version != (own := __version__):
        raise ConfigError(
            "executor",
            f"rank {hello.rank} on {hello.host} has version {hello.version} of "
            f"Hookline, the executor {own}",
        )
    if hello.model_digest != model_digest:
        raise ConfigError(
            "model",
            f"rank {hello.rank} on {hello.host} has another one: its files have the "
            f"digest {hello.model_digest}, those of the executor {model_digest}",
        )
