"""One engine process, several clients: each gets its own requests' events."""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from hookline.config import CacheConfig, EngineConfig, ExecutorConfig, ModelConfig
from hookline.engine.commands import Add, Call, Reply, ResetPrefixCache, Told
from hookline.events import StepOutput
from hookline.request_ids import client_of, first_id
from hookline_cluster.clients.messages import Attach, Detach, ToClient
from hookline_cluster.clients.owner_client import OwnerClient
from hookline_process_engine.ipc import IpcTransport, ipc_address
from hookline_process_engine.launched_engine import LaunchedEngine
from hookline_process_engine.mailbox import Mailbox
from hookline_process_engine.messages import Output, Ready
from hookline_process_engine.transport import Party, Role
from hookline_simulated.config import SimulationConfig
from hookline_testing.oracle import Oracle
from hookline_testing.own_time import Deadline
from hookline_testing.simulation import engine_request

WAIT_SECONDS = 20.0
ENGINE = Party(Role.ENGINE, 0)


class SecondaryClient:
    """Client 1 of an engine that client 0 owns."""

    def __init__(self, folder: Path, key: bytes) -> None:
        party = Party(Role.CLIENT, 1)
        self.transport = IpcTransport(folder, party)
        self.mailbox: Mailbox[ToClient] = Mailbox(
            self.transport, party, msgspec.msgpack.Decoder(ToClient), lambda _: key
        )
        self.transport.connect(ENGINE, ipc_address(folder, ENGINE), max_waiting=0)

    def receive(self) -> object:
        """The next message; fails if none comes."""
        deadline = Deadline(WAIT_SECONDS)
        while (mail := self.mailbox.receive(1.0)) is None:
            assert deadline.is_ahead
        assert mail.sender == ENGINE
        return mail.message


@pytest.fixture
def owner(llama: Oracle) -> Iterator[OwnerClient]:
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        cache=CacheConfig(num_kv_blocks=64),
        executor=ExecutorConfig(name="simulated"),
        in_process=False,
        sections={"simulated": SimulationConfig(step_seconds=0.01)},
    )
    with closing(OwnerClient(config)) as client:
        yield client


def outputs_until_end(client: OwnerClient, request_id: int) -> list[StepOutput]:
    outputs: list[StepOutput] = []
    while not any(
        end.request_id == request_id for each in outputs for end in each.events.finished
    ):
        received = client.receive(WAIT_SECONDS)
        assert isinstance(received, StepOutput)
        outputs.append(received)
    return outputs


def test_messages_cost_no_look_at_each_process(
    owner: OwnerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look is a system call for each engine: one in a while is enough."""
    looks = 0

    def look(_: LaunchedEngine) -> None:
        nonlocal looks
        looks += 1

    monkeypatch.setattr(LaunchedEngine, "end_reason", property(look))
    began = time.monotonic()
    for _ in range(1000):
        owner.receive(0.0)

    assert looks <= 2 + (time.monotonic() - began) / 0.05


def ids_in(output: StepOutput) -> set[int]:
    events = (
        output.events.queued,
        output.events.scheduled,
        output.events.new_tokens,
        output.events.finished,
    )
    return {event.request_id for kind in events for event in kind}


def test_each_client_gets_its_own_events(owner: OwnerClient) -> None:
    """Both receive the engine's state; records and events go to one of them."""
    mine, theirs = first_id(0), first_id(1)
    secondary = SecondaryClient(owner._folder, owner._launched[0].key)
    with closing(secondary.transport):
        secondary.mailbox.post(ENGINE, Attach(secondary.transport.address))
        ready = secondary.receive()
        assert isinstance(ready, Ready)
        assert ready.facts.engine_index == 0

        secondary.mailbox.post(ENGINE, Add(engine_request(theirs, [3, 4], 40)))
        owner.send(0, Add(engine_request(mine, [5, 6], 40)))
        owned = outputs_until_end(owner, mine)
        received: list[StepOutput] = []
        while not any(each.events.finished for each in received):
            message = secondary.receive()
            assert isinstance(message, Output)
            received.append(message.output)
        secondary.mailbox.post(ENGINE, Call(1, 9, ResetPrefixCache()))
        while not isinstance(reply := secondary.receive(), Reply):
            pass

    assert set().union(*map(ids_in, received)) == {theirs}
    assert set().union(*map(ids_in, owned)) == {mine}
    assert sum(len(e.token_ids) for o in received for e in o.events.new_tokens) == 40
    assert not any(each.record for each in received)
    both = {client_of(i) for o in owned if o.record for i, _ in o.record.request_tokens}
    assert both == {0, 1}
    assert max(each.stats.running for each in received) == 2
    assert reply == Reply(1, 9, Told())


def test_a_client_that_detaches_does_not_affect_others(owner: OwnerClient) -> None:
    """Its requests are aborted, and their events go nowhere."""
    secondary = SecondaryClient(owner._folder, owner._launched[0].key)
    secondary.mailbox.post(ENGINE, Attach(secondary.transport.address))
    secondary.receive()
    secondary.mailbox.post(ENGINE, Add(engine_request(first_id(1), [3, 4], 20)))
    secondary.receive()
    secondary.mailbox.post(ENGINE, Detach())
    secondary.transport.close(linger_seconds=1.0)

    owner.send(0, Add(engine_request(1, [5, 6], 60)))
    outputs = outputs_until_end(owner, 1)

    assert outputs[-1].stats.totals.finished == {"abort": 1, "length": 1}
    assert {each.request_id for out in outputs for each in out.events.finished} == {1}
    assert outputs[-1].stats.totals.residue.requests == 0


def test_strangers_and_garbage_do_not_reach_the_engine(owner: OwnerClient) -> None:
    """Commands of a client that is not attached, and random bytes, change nothing."""
    stranger = SecondaryClient(owner._folder, owner._launched[0].key)
    with closing(stranger.transport):
        stranger.mailbox.post(ENGINE, Add(engine_request(77, [3, 4], 5)))
        stranger.transport.send(ENGINE, bytearray(os.urandom(100)), waits=True)
        stranger.transport.connect(
            Party(Role.CLIENT, 0),
            ipc_address(owner._folder, Party(Role.CLIENT, 0)),
            max_waiting=0,
        )
        for frame in (b"", os.urandom(100), b"hkln" + os.urandom(50)):
            stranger.transport.send(Party(Role.CLIENT, 0), bytearray(frame), waits=True)
        stranger.mailbox.post(ENGINE, Detach())

        owner.send(0, Add(engine_request(1, [5, 6], 5)))
        outputs = outputs_until_end(owner, 1)

    assert outputs[-1].stats.totals.received == 1
    assert owner.dropped == 4  # one of them by the engine
