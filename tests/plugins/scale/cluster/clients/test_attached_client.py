"""A client that does not own the engines attaches, and hears what becomes of them."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TypeVar

import pytest

from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ModelConfig,
)
from hookline.engine.commands import Add, Call, IsSleeping, Reply, Sleep
from hookline.events import StepOutput
from hookline.exceptions import EngineDeadError
from hookline.request_ids import first_id
from hookline.transport.engine_client import EngineDied, Received, SecondaryClientEnded
from hookline_cluster.clients.attached_client import AttachedClient
from hookline_cluster.clients.owner_client import OwnerClient
from hookline_cluster.news import EngineVerdict, SecondaryClientCall
from hookline_process_engine.capabilities import EngineReplaced
from hookline_process_engine.supervision.config import SupervisionConfig
from hookline_simulated.config import SimulationConfig
from hookline_testing.oracle import Oracle
from hookline_testing.own_time import Deadline
from hookline_testing.simulation import engine_request

R = TypeVar("R")
WAIT_SECONDS = 20.0


@pytest.fixture
def owner(llama: Oracle) -> Iterator[OwnerClient]:
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        cache=CacheConfig(num_kv_blocks=64),
        executor=ExecutorConfig(name="simulated"),
        in_process=False,
        sections={
            "simulated": SimulationConfig(step_seconds=0.01),
            "supervision": SupervisionConfig(engine_restart=1),
        },
    )
    with closing(OwnerClient(config)) as client:
        yield client


def received_until(
    client: OwnerClient | AttachedClient, is_last: Callable[[Received], bool]
) -> list[Received]:
    """All that a client receives, up to a message that must come."""
    received: list[Received] = []
    deadline = Deadline(WAIT_SECONDS)
    while not received or not is_last(received[-1]):
        assert deadline.is_ahead
        if (message := client.receive(0.2)) is not None:
            received.append(message)
    return received


def first(client: OwnerClient | AttachedClient, kind: type[R]) -> R:
    """The first message of a kind."""
    last = received_until(client, lambda each: isinstance(each, kind))[-1]
    assert isinstance(last, kind)
    return last


def ends_a_request(message: Received) -> bool:
    return isinstance(message, StepOutput) and bool(message.events.finished)


def test_it_sends_requests_and_calls_of_its_own(owner: OwnerClient) -> None:
    """It knows the engine's facts, and gets the tokens and the reply."""
    with closing(AttachedClient(owner.invite(1))) as secondary:
        secondary.send(0, Add(engine_request(first_id(1), [3, 4], 20)))
        received = received_until(secondary, ends_a_request)
        secondary.send(0, Call(1, 7, IsSleeping()))
        reply = first(secondary, Reply)

    outputs = [each for each in received if isinstance(each, StepOutput)]
    assert secondary.engines[0].facts.model.num_kv_blocks == 64
    assert sum(len(e.token_ids) for out in outputs for e in out.events.new_tokens) == 20
    assert (reply.client, reply.number, reply.error) == (1, 7, None)


def test_the_owner_gets_the_ends_of_a_force_detached_clients_requests(
    owner: OwnerClient,
) -> None:
    """They are aborted, and their blocks are free; other clients' run on."""
    theirs = first_id(1)
    secondary, other = AttachedClient(owner.invite(1)), AttachedClient(owner.invite(2))
    with closing(secondary), closing(other):
        secondary.send(0, Add(engine_request(theirs, [3, 4], 1000)))
        other.send(0, Add(engine_request(first_id(2), [5, 6], 100)))
        received_until(
            secondary,
            lambda each: isinstance(each, StepOutput) and bool(each.events.new_tokens),
        )
        owner.force_detach(1)
        last = received_until(owner, ends_a_request)[-1]
        others = received_until(other, ends_a_request)[-1]

    assert isinstance(last, StepOutput)
    assert isinstance(others, StepOutput)
    [end] = last.events.finished
    assert (end.request_id, end.cause.reason) == (theirs, "abort")
    assert others.stats.totals.finished == {"abort": 1, "length": 1}
    assert (
        others.stats.totals.residue.requests == others.stats.totals.residue.blocks == 0
    )
    assert others.stats.running == others.stats.waiting == 0


def test_it_hears_of_a_death_and_of_the_new_process(owner: OwnerClient) -> None:
    """Once the owner has decided; then it is attached again, with the new key."""
    with closing(AttachedClient(owner.invite(1))) as secondary:
        owner.kill(0, "the test killed it")
        death = first(owner, EngineDied)
        owner.tell_death(death, is_replaced=True)
        heard = first(secondary, EngineDied)
        with pytest.raises(EngineDeadError):
            secondary.send(0, Call(1, 1, IsSleeping()))
        owner.replace(0, 0.0)
        first(owner, EngineReplaced)
        replaced = first(secondary, EngineReplaced)
        secondary.send(0, Add(engine_request(first_id(1), [3, 4], 5)))
        received_until(secondary, ends_a_request)

    assert heard == death._replace(is_replaced=True)
    assert replaced.engine_index == 0
    assert secondary.dropped == 0


def test_it_is_of_no_use_once_the_last_engine_is_gone_for_good(
    owner: OwnerClient,
) -> None:
    """It reports the death, and then raises; so does one that attaches later."""
    secondary = AttachedClient(owner.invite(1))
    owner.kill(0, "the test killed it")
    owner.tell_death(first(owner, EngineDied), is_replaced=False)
    late = AttachedClient(owner.invite(2))

    with closing(secondary), closing(late):
        for each in (secondary, late):
            assert first(each, EngineDied).is_replaced is False
            with pytest.raises(EngineDeadError, match="the test killed it"):
                each.receive(1.0)


def test_it_hears_the_owners_verdicts(owner: OwnerClient) -> None:
    """On an engine that stalls, and that works again."""
    stalled = EngineVerdict(0, "it sends nothing", 3.5, is_final=True)
    recovered = EngineVerdict(0, None, 0.0, is_final=False)
    with closing(AttachedClient(owner.invite(1))) as secondary:
        owner.tell_verdict(stalled)
        owner.tell_verdict(recovered)

        assert first(secondary, EngineVerdict) == stalled
        assert first(secondary, EngineVerdict) == recovered


def test_the_owner_knows_of_calls_that_may_take_long(owner: OwnerClient) -> None:
    """So that its watchdog is patient; it hears of their begin and of their end."""
    with closing(AttachedClient(owner.invite(1))) as secondary:
        secondary.send(0, Call(1, 3, Sleep()))
        begun, ended = (
            first(owner, SecondaryClientCall),
            first(owner, SecondaryClientCall),
        )
        reply = first(secondary, Reply)

    assert (begun, ended) == (
        SecondaryClientCall(0, is_open=True),
        SecondaryClientCall(0, is_open=False),
    )
    assert reply.error is None


def test_the_owner_learns_what_a_force_detached_client_was_told(
    owner: OwnerClient,
) -> None:
    """The ends of its requests, which it may not have told anyone."""
    told = first_id(1)
    with closing(AttachedClient(owner.invite(1))) as secondary:
        secondary.send(0, Add(engine_request(told, [3, 4], 3)))
        received_until(secondary, ends_a_request)
        owner.force_detach(1)
        ended = first(owner, SecondaryClientEnded)

    assert (ended.engine_index, ended.client) == (0, 1)
    assert [event.request_id for event in ended.recent] == [told]
