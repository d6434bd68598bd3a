"""Several clients of an engine on another machine: the head node passes frames on."""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeVar

import pytest

from hookline.clock import SystemClock
from hookline.config import EngineConfig
from hookline.engine.commands import Add, Call, IsSleeping, Reply, Sleep
from hookline.engine_setup.building import build_core, build_loop
from hookline.events import StepOutput
from hookline.exceptions import EngineDeadError
from hookline.model_description import find_folder
from hookline.request_ids import first_id
from hookline.transport.engine_client import EngineDied, Received, SecondaryClientEnded
from hookline_cluster.clients.attached_client import AttachedClient
from hookline_cluster.machines.client_relay import ClientRelay, client_label
from hookline_cluster.machines.endpoint import Endpoint
from hookline_cluster.machines.folder_digest import digest_of_folder
from hookline_cluster.machines.link_keys import LinkKeys
from hookline_cluster.machines.remote_client import RemoteClient
from hookline_cluster.machines.remote_wire import RemoteWire
from hookline_cluster.machines.tcp import TcpHub
from hookline_cluster.news import (
    EngineLeaving,
    EngineVerdict,
    SecondaryClientCall,
    SecondaryClientLeft,
)
from hookline_process_engine.capabilities import EngineReplaced
from hookline_process_engine.mailbox import make_key
from hookline_process_engine.messages import Ready
from hookline_process_engine.transport import Party, Role
from hookline_testing.own_time import Deadline
from hookline_testing.simulation import engine_request

N = TypeVar("N")
WAIT_SECONDS = 20.0
KEYS = LinkKeys.derive(b"a secret of some length")
DIGEST = digest_of_folder(find_folder("demo"))
ENGINE = Party(Role.ENGINE, 0)


def until(holds: Callable[[], bool]) -> None:
    deadline = Deadline(WAIT_SECONDS)
    while not holds():
        assert deadline.is_ahead
        time.sleep(0.01)


class RemoteEngine:
    """An engine as on another machine, in a thread of the test."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._wire = RemoteWire(endpoint, KEYS, 0, lambda: None)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Asks for no more requests."""
        self._wire.leaving()

    def end(self) -> None:
        """Is gone without a word."""
        self._is_over.set()
        self._thread.join()
        self._wire.close()

    def _serve(self) -> None:
        local = EngineConfig.from_options(data_parallel_join_timeout=WAIT_SECONDS)
        config = self._wire.join(local, DIGEST)
        core = build_core(config, SystemClock())
        loop = build_loop(core)
        self._wire.ready(Ready(core.facts, core.clock_pair()))
        while not (self._is_over.is_set() or self._wire.is_dismissed):
            for message in loop.run_once(self._wire.receive, 0.02):
                self._wire.send(message)


class Head:
    """A head node whose only engine is on another machine."""

    def __init__(self, stack: ExitStack) -> None:
        config = EngineConfig.from_options(
            executor="simulated",
            simulated_step_seconds=0.005,
            num_kv_blocks=256,
            data_parallel_size_local=0,
            data_parallel_join_timeout=WAIT_SECONDS,
        )
        relay = ClientRelay()
        hub = TcpHub(Endpoint("127.0.0.1", 0), KEYS, relay)
        self.endpoint = Endpoint("127.0.0.1", hub.port)
        self.relay = relay
        self.client = RemoteClient(config, hub, relay)
        self._stack = stack
        stack.callback(self.client.close)
        self.engine = self.start_engine()
        self.client.wait()
        self._received: queue.SimpleQueue[Received] = queue.SimpleQueue()
        self._is_over = threading.Event()
        pump = threading.Thread(target=self._pump, daemon=True)
        pump.start()
        stack.callback(pump.join)
        stack.callback(self._is_over.set)

    def start_engine(self) -> RemoteEngine:
        self.engine = RemoteEngine(self.endpoint)
        self._stack.callback(self.engine.end)
        return self.engine

    def secondary(self, index: int) -> AttachedClient:
        secondary = AttachedClient(self.client.invite(index))
        self._stack.callback(secondary.close)
        return secondary

    def first(self, kind: type[N]) -> N:
        """The owner's next message of a kind."""
        while not isinstance(received := self._received.get(timeout=10.0), kind):
            pass
        return received

    def _pump(self) -> None:
        while not self._is_over.is_set():
            if (received := self.client.receive(0.05)) is not None:
                self._received.put(received)


@pytest.fixture
def head() -> Iterator[Head]:
    with ExitStack() as stack:
        yield Head(stack)


def first(secondary: AttachedClient, kind: type[N]) -> N:
    """A secondary client's next message of a kind."""
    deadline = Deadline(WAIT_SECONDS)
    while not isinstance(received := secondary.receive(0.1), kind):
        assert deadline.is_ahead
    return received


def run_request(secondary: AttachedClient, tokens: int) -> list[StepOutput]:
    """Sends a request; returns what comes until its end."""
    request_id = first_id(secondary.index)
    secondary.send(0, Add(engine_request(request_id, [3, 4], tokens)))
    outputs: list[StepOutput] = []
    while not outputs or not outputs[-1].events.finished:
        outputs.append(first(secondary, StepOutput))
    return outputs


def test_each_client_gets_its_own_requests(head: Head) -> None:
    """The owner gets the steps, and the state counts all of them."""
    one, other = head.secondary(1), head.secondary(2)
    outputs = [*run_request(one, 20), *run_request(other, 30)]
    one.send(0, Call(1, 7, IsSleeping()))
    reply = first(one, Reply)
    finished: dict[str, int] = {}
    while finished != {"length": 2}:
        state = head.first(StepOutput)
        finished = dict(state.stats.totals.finished)

    tokens = [len(e.token_ids) for out in outputs for e in out.events.new_tokens]
    assert sum(tokens) == 50
    assert not any(out.record for out in outputs)
    assert (reply.client, reply.number, reply.error) == (1, 7, None)
    assert state.stats.totals.received == 2
    assert state.stats.totals.residue.requests == 0
    assert one.dropped == other.dropped == head.client.dropped == 0
    assert one.hosts[0] == head.client.hosts[0] != ""


def test_secondary_clients_hear_of_a_loss_and_of_the_return(head: Head) -> None:
    """No request waits for it; the new process has another key."""
    secondary = head.secondary(1)
    head.engine.end()
    death = head.first(EngineDied)
    head.client.tell_death(death, is_replaced=True)
    heard = first(secondary, EngineDied)
    with pytest.raises(EngineDeadError, match="connection is lost"):
        secondary.send(0, Call(1, 1, IsSleeping()))
    head.start_engine()
    head.first(EngineReplaced)
    first(secondary, EngineReplaced)
    late = head.secondary(2)

    assert (heard.kind, heard.is_replaced, heard.returns) == (death.kind, True, True)
    assert run_request(secondary, 5)[-1].stats.totals.received == 1
    assert run_request(late, 5)[-1].stats.totals.received == 2


def test_the_requests_of_a_guest_that_has_ended_are_aborted(head: Head) -> None:
    """The owner gets their ends, and those that it had been told; others go on."""
    secondary, other = head.secondary(1), head.secondary(2)
    run_request(secondary, 3)
    secondary.send(0, Add(engine_request(first_id(1), [3, 4], 1000)))
    while not first(secondary, StepOutput).events.new_tokens:
        pass
    head.client.force_detach(1)
    ended = head.first(SecondaryClientEnded)
    outputs = run_request(other, 20)

    assert (ended.engine_index, ended.client, len(ended.recent)) == (0, 1, 1)
    assert outputs[-1].stats.totals.finished == {"length": 2, "abort": 1}
    assert outputs[-1].stats.running == 0


def test_the_owner_hears_of_departures_and_of_slow_calls(head: Head) -> None:
    """As of engines on its own machine."""
    secondary = head.secondary(1)
    secondary.send(0, Call(1, 3, Sleep()))
    calls = head.first(SecondaryClientCall), head.first(SecondaryClientCall)
    first(secondary, Reply)
    secondary.leave(0, 4)

    assert [each.is_open for each in calls] == [True, False]
    assert head.first(SecondaryClientLeft) == SecondaryClientLeft(0, 1, 4)


def test_secondary_clients_hear_the_owners_news(head: Head) -> None:
    """That an engine leaves, and that it stalls."""
    secondary = head.secondary(1)
    head.engine.leave()
    leaving = first(secondary, EngineLeaving)
    verdict = EngineVerdict(0, "it sends nothing", 3.5, is_final=True)
    head.client.tell_verdict(verdict)

    assert leaving == head.first(EngineLeaving) == EngineLeaving(0)
    assert first(secondary, EngineVerdict) == verdict


def test_a_frame_without_an_engines_key_goes_nowhere() -> None:
    """Nor one with the key of a process that has ended."""
    relay, stranger = ClientRelay(), ClientRelay()
    key, earlier = make_key(), make_key()
    relay.add_engine(ENGINE, earlier)
    relay.add_engine(ENGINE, key)
    head_party = Party(Role.CLIENT, 9)
    stranger.transport.connect(head_party, relay.address, max_waiting=0)
    for each in (earlier, make_key(), key):
        frame = bytearray(11) + each + b"any"
        stranger.transport.send(head_party, frame, waits=True)
    stranger.transport.send(head_party, bytearray(b"short"), waits=True)
    taken = []
    until(lambda: bool(relay.inbox.poll(0)))
    while relay.inbox.poll(200):
        taken.append(relay.next_frame())
    relay.remove_engine(ENGINE)

    assert [each and each[0] for each in taken] == [None, None, ENGINE, None]
    relay.close()
    stranger.close()
    assert not relay.folder.exists()


def test_a_guest_that_takes_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Frames to it wait up to a bound; those to nobody are dropped."""
    monkeypatch.setattr(ClientRelay, "most_waiting", 2)
    relay, taker = ClientRelay(), ClientRelay()
    secondary = Party(Role.CLIENT, 5)
    relay.transport.connect(secondary, taker.address, max_waiting=relay.most_waiting)
    frame = bytes(1 << 20)
    for _ in range(50):
        relay.pass_on(client_label(secondary), frame)
    for _ in range(50):
        relay.pass_on(client_label(Party(Role.CLIENT, 6)), frame)
    overrun = relay.overrun
    relay.forget(5)

    assert overrun == {5}
    assert relay.overrun == frozenset()
    relay.close()
    taker.close()
