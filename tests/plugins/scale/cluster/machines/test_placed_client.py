"""Engines that a backend starts on other machines: they join, die and are replaced."""

import queue
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TypeVar

import pytest

from hookline.config import EngineConfig
from hookline.events import ClockPair
from hookline.exceptions import EngineDeadError
from hookline.model_description import find_folder
from hookline.transport.engine_client import DeathKind, EngineDied, Received
from hookline_cluster.clients.attached_client import AttachedClient
from hookline_cluster.config import ClusterConfig, MachinesConfig
from hookline_cluster.machines.client_relay import ClientRelay
from hookline_cluster.machines.endpoint import endpoint_of
from hookline_cluster.machines.engine_nodes import NodeEnded
from hookline_cluster.machines.folder_digest import digest_of_folder
from hookline_cluster.machines.link_keys import LinkKeys
from hookline_cluster.machines.placed_client import PlacedClient
from hookline_cluster.machines.placing import place_by
from hookline_cluster.machines.remote_wire import RemoteWire
from hookline_cluster.news import (
    EngineDraining,
    EngineJoined,
    EngineLeft,
    EngineNotJoined,
    SecondaryClientLeft,
)
from hookline_process_engine.capabilities import EngineReplaced
from hookline_process_engine.messages import Ready
from hookline_testing.own_time import Deadline
from hookline_testing.payloads import FACTS

N = TypeVar("N")
SECRET = b"a secret of some length"
DIGEST = digest_of_folder(find_folder("demo"))
WAIT_SECONDS = 60.0


class ThreadNodes:
    """Nodes whose engines are threads that join, and do nothing else."""

    address = "127.0.0.1"

    def __init__(self) -> None:
        self.configs: list[EngineConfig] = []
        self.ends: queue.SimpleQueue[NodeEnded] = queue.SimpleQueue()
        self.reason_not_to_start: str | None = None
        self.is_closed = False
        self.is_slow = False
        self.released: list[int] = []
        self._running: dict[int, tuple[threading.Event, threading.Thread]] = {}

    @property
    def running(self) -> list[int]:
        return sorted(self._running)

    def start(self, config: EngineConfig, secret: bytes) -> None:
        index = config.engine_index
        self.configs.append(config)
        if self.reason_not_to_start is not None:
            self.ends.put(NodeEnded(index, self.reason_not_to_start))
            return
        if self.is_slow:
            return
        stopping = threading.Event()
        engine = threading.Thread(target=serve, args=[config, secret, stopping])
        self._running[index] = (stopping, engine)
        engine.start()

    def stop(self, engine_index: int) -> None:
        if (running := self._running.pop(engine_index, None)) is not None:
            stopping, engine = running
            stopping.set()
            engine.join()

    def release(self, engine_index: int) -> None:
        self.stop(engine_index)
        self.released.append(engine_index)

    def take_end(self) -> NodeEnded | None:
        return None if self.ends.empty() else self.ends.get()

    def close(self) -> None:
        self.is_closed = True
        for index in self.running:
            self.stop(index)


def serve(config: EngineConfig, secret: bytes, stopping: threading.Event) -> None:
    """Joins the head node as an engine, and answers pings."""
    endpoint = endpoint_of(ClusterConfig.of(config).machines, has_secret=True)
    keys = LinkKeys.derive(secret)
    wire = RemoteWire(endpoint, keys, config.engine_index, lambda: None)
    try:
        wire.join(config, DIGEST)
        wire.ready(Ready(FACTS, ClockPair(1, 2)))
        while not (stopping.is_set() or wire.is_dismissed):
            wire.receive(0.02)
        wire.left()
    finally:
        wire.close()


@pytest.fixture
def nodes() -> Iterator[ThreadNodes]:
    made = ThreadNodes()
    yield made
    made.close()


@contextmanager
def placed(
    nodes: ThreadNodes, relay: ClientRelay | None = None
) -> Iterator[PlacedClient]:
    """A client of two engines; closed with its nodes."""
    config = EngineConfig.from_options(
        model="demo", data_parallel_size=2, data_parallel_backend="threads"
    )
    with ExitStack() as stack:
        client = place_by(config, nodes, SECRET, relay)
        stack.callback(client.close)
        yield client
    assert nodes.is_closed


def first_of(client: AttachedClient, kind: type[N]) -> N:
    """The next message of a kind."""
    deadline = Deadline(WAIT_SECONDS)
    while not isinstance(received := client.receive(0.1), kind):
        assert deadline.is_ahead
    return received


def next_of(client: PlacedClient) -> Received:
    deadline = Deadline(WAIT_SECONDS)
    while deadline.is_ahead:
        if (received := client.receive(0.05)) is not None:
            return received
    raise AssertionError("nothing was received")


def test_engines_join_by_what_they_are_told(nodes: ThreadNodes) -> None:
    """All engines are the backend's; they learn address, free port and secret."""
    with placed(nodes) as client:
        client.wait()

        assert sorted(client.engines) == nodes.running == [0, 1]
        assert {ClusterConfig.of(each).machines.address for each in nodes.configs} == {
            "127.0.0.1"
        }
        assert (
            len({ClusterConfig.of(each).machines.rpc_port for each in nodes.configs})
            == 1
        )
        assert not client.returns(0)


def test_an_engine_is_replaced_when_it_is_asked_for(nodes: ThreadNodes) -> None:
    """A node that has ended is told as a death; `replace` starts another engine."""
    with placed(nodes) as client:
        client.wait()

        nodes.ends.put(NodeEnded(1, "its node has ended"))
        died = next_of(client)
        running = nodes.running
        client.replace(1, 0.0)
        replaced = next_of(client)

    assert isinstance(died, EngineDied)
    assert (died.engine_index, died.kind) == (1, DeathKind.EXITED)
    assert "its node has ended" in died.reason
    assert running == [0]
    assert isinstance(replaced, EngineReplaced)
    assert replaced.engine_index == 1


def test_a_replacement_that_cannot_start_is_told(nodes: ThreadNodes) -> None:
    """So that its front end tries again or gives it up."""
    with placed(nodes) as client:
        client.wait()
        nodes.ends.put(NodeEnded(1, "its node has ended"))
        next_of(client)
        nodes.reason_not_to_start = "no place"

        client.replace(1, 0.0)

        assert next_of(client) == EngineDied(1, "no place", DeathKind.START)


def test_a_start_without_room_fails(nodes: ThreadNodes) -> None:
    """The backend's reason is that of the error."""
    nodes.reason_not_to_start = "no place for 2 engines"

    with placed(nodes) as client, pytest.raises(EngineDeadError, match="no place for"):
        client.wait()


def test_a_stalled_engine_is_ended(nodes: ThreadNodes) -> None:
    """`kill` ends its node, and the death has the given reason."""
    with placed(nodes) as client:
        client.wait()

        client.kill(0, "it does nothing")
        died = next_of(client)

        assert isinstance(died, EngineDied)
        assert "it does nothing" in died.reason
        assert nodes.running == [1]


def test_local_engines_are_counted_with_a_backend() -> None:
    """Without a number, none is on this machine."""
    machines = MachinesConfig(backend="ray")
    some = MachinesConfig(backend="ray", size_local=1)

    assert (machines.num_local, some.num_local) == (0, 1)
    assert MachinesConfig().num_local is None


def test_engines_are_added_and_removed(nodes: ThreadNodes) -> None:
    """Each gets the others' number of blocks, and gives its place back in the end."""
    with placed(nodes) as client:
        client.wait()
        client.add(2, 64)
        joined = next_of(client)
        links = [each.is_up for each in client.links.engines]
        client.remove(2)
        left = next_of(client)
        running = nodes.running
        client.add(2, 64)
        again = next_of(client)

    assert isinstance(joined, EngineJoined)
    assert isinstance(again, EngineJoined)
    assert joined.engine_index == again.engine_index == 2
    assert links == [True] * 3
    assert left == EngineLeft(2)
    assert running == [0, 1]
    assert nodes.released == [2]
    assert sorted(client.engines) == [0, 1, 2]


def test_an_engine_that_cannot_be_added_is_forgotten(nodes: ThreadNodes) -> None:
    """The others serve on, and the next try may succeed."""
    with placed(nodes) as client:
        client.wait()
        nodes.reason_not_to_start = "no place on the cluster"
        client.add(2, 64)
        refused = next_of(client)
        nodes.reason_not_to_start = None
        client.add(2, 64)
        joined = next_of(client)

    assert refused == EngineNotJoined(2, "no place on the cluster")
    assert isinstance(joined, EngineJoined)


def test_an_engine_is_removed_while_it_starts(nodes: ThreadNodes) -> None:
    """It has not joined, and never will."""
    with placed(nodes) as client:
        client.wait()
        nodes.is_slow = True
        client.add(2, 64)
        client.remove(2)

        assert next_of(client) == EngineLeft(2)
        assert nodes.released == [2]
        assert sorted(client.engines) == [0, 1]


def test_other_clients_follow_engines_that_come_and_go(nodes: ThreadNodes) -> None:
    """They attach through the head node, and leave before an engine is ended."""
    received: queue.SimpleQueue[Received] = queue.SimpleQueue()
    is_over = threading.Event()

    def pump(client: PlacedClient) -> None:
        while not is_over.is_set():
            if (news := client.receive(0.02)) is not None:
                received.put(news)

    with placed(nodes, ClientRelay()) as client:
        client.wait()
        pumping = threading.Thread(target=pump, args=[client])
        pumping.start()
        with closing(AttachedClient(client.invite(1))) as secondary:
            client.add(2, 64)
            joined = first_of(secondary, EngineJoined)
            client.drain_engine(2)
            wish = first_of(secondary, EngineDraining)
            before = client.is_drained(2)
            secondary.leave(2, wish.number)
            while not isinstance(
                left := received.get(timeout=WAIT_SECONDS), SecondaryClientLeft
            ):
                pass
            client.client_left(*left)
            after = client.is_drained(2)
            client.remove(2)
            gone = first_of(secondary, EngineLeft)
            known = sorted(secondary.engines)
        is_over.set()
        pumping.join()

    assert joined.engine_index == 2
    assert left == SecondaryClientLeft(2, 1, wish.number)
    assert (before, after) == (False, True)
    assert gone == EngineLeft(2)
    assert known == [0, 1]
