"""Clients that do not own the engines follow those that come and go."""

from collections.abc import Iterator
from contextlib import closing
from typing import TypeVar

import pytest

from hookline.config import CacheConfig, EngineConfig, ExecutorConfig, ModelConfig
from hookline.engine.commands import Add
from hookline.events import StepOutput
from hookline.request_ids import first_id
from hookline.transport.engine_client import SecondaryClientEnded
from hookline_cluster.clients.attached_client import AttachedClient
from hookline_cluster.news import (
    EngineAvailable,
    EngineDraining,
    EngineJoined,
    EngineLeft,
    SecondaryClientLeft,
)
from hookline_cluster.scaling.elastic_client import ElasticClient
from hookline_simulated.config import SimulationConfig
from hookline_testing.oracle import Oracle
from hookline_testing.own_time import Deadline
from hookline_testing.simulation import engine_request

N = TypeVar("N")
WAIT_SECONDS = 20.0


@pytest.fixture
def owner(llama: Oracle) -> Iterator[ElasticClient]:
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        cache=CacheConfig(num_kv_blocks=64),
        executor=ExecutorConfig(name="simulated"),
        in_process=False,
        sections={"simulated": SimulationConfig(step_seconds=0.005)},
    )
    with closing(ElasticClient(config)) as client:
        yield client


def first(client: ElasticClient | AttachedClient, kind: type[N]) -> N:
    """The next message of a kind, which must come."""
    deadline = Deadline(WAIT_SECONDS)
    while not isinstance(received := client.receive(0.1), kind):
        assert deadline.is_ahead
    return received


def grow(owner: ElasticClient) -> None:
    owner.add(1, 64)
    assert first(owner, EngineJoined).engine_index == 1


def run_request(secondary: AttachedClient, engine_index: int, tokens: int = 5) -> None:
    """Sends a request, and waits for its end."""
    request_id = first_id(secondary.index)
    secondary.send(engine_index, Add(engine_request(request_id, [3, 4], tokens)))
    ended = False
    while not ended:
        output = first(secondary, StepOutput)
        ended = any(each.request_id == request_id for each in output.events.finished)


def test_an_engine_is_used_from_its_begin_to_its_end(owner: ElasticClient) -> None:
    """Two clients attach, serve, and leave it; the owner ends it then."""
    one, other = AttachedClient(owner.invite(1)), AttachedClient(owner.invite(2))
    with closing(one), closing(other):
        grow(owner)
        joined = [first(each, EngineJoined) for each in (one, other)]
        for each in (one, other):
            run_request(each, 1)
        owner.drain_engine(1)
        wishes = [first(each, EngineDraining) for each in (one, other)]
        states = [owner.is_drained(1)]
        for each, wish in zip((one, other), wishes, strict=True):
            each.leave(1, wish.number)
            left = first(owner, SecondaryClientLeft)
            owner.client_left(*left)
            states.append(owner.is_drained(1))
        owner.remove(1)
        gone = first(owner, EngineLeft)
        heard = [first(each, EngineLeft) for each in (one, other)]

    assert [each.engine_index for each in joined] == [1, 1]
    assert [each.info.facts.model.num_kv_blocks for each in joined] == [64, 64]
    assert states == [False, False, True]
    assert [gone, *heard] == [EngineLeft(1)] * 3
    assert owner.dropped == one.dropped == other.dropped == 0
    assert list(one.engines) == list(other.engines) == [0]


def test_a_client_comes_back_to_an_engine_that_stays(owner: ElasticClient) -> None:
    """Before it has left, or after; one that is invited meanwhile attaches then."""
    with closing(AttachedClient(owner.invite(1))) as secondary:
        grow(owner)
        first(secondary, EngineJoined)
        owner.drain_engine(1)
        wish = first(secondary, EngineDraining)
        with closing(AttachedClient(owner.invite(2))) as late:
            known = list(late.engines)
            secondary.leave(1, wish.number)
            first(owner, SecondaryClientLeft)
            owner.keep(1)
            first(secondary, EngineAvailable)
            secondary.come_back(1)
            first(secondary, EngineJoined)
            first(late, EngineJoined)
            for each in (secondary, late):
                run_request(each, 1)

    assert known == [0]
    assert owner.dropped == 0


def test_a_client_that_is_killed_is_not_awaited(owner: ElasticClient) -> None:
    """Its requests are aborted before the engine counts as drained."""
    secondary = AttachedClient(owner.invite(1))
    with closing(secondary):
        grow(owner)
        first(secondary, EngineJoined)
        secondary.send(1, Add(engine_request(first_id(1), [3, 4], 1000)))
        while not first(secondary, StepOutput).events.new_tokens:
            pass
        owner.drain_engine(1)
        owner.force_detach(1)
        before = owner.is_drained(1)
        ended = first(owner, SecondaryClientEnded)
        while ended.engine_index != 1:
            ended = first(owner, SecondaryClientEnded)
        owner.client_left(1, ended.client, None)
        after = owner.is_drained(1)
        while (output := first(owner, StepOutput)).stats.totals.finished != {
            "abort": 1
        }:
            assert output.stats.totals.residue.requests == 0

    assert (before, after) == (False, True)
    assert output.stats.running == 0
