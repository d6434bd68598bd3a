"""Engines join and leave while requests run: none is lost, and the books balance."""

from collections.abc import Iterator

import pytest

from hookline.clock import VirtualClock
from hookline.engine.commands import ResetPrefixCache, Told
from hookline.exceptions import EngineDeadError, RequestError
from hookline.outputs import RequestOutput
from hookline.stats.scheduler_stats import Residue
from hookline_cluster.config import LoadBalancing
from hookline_server.engine_number import ScalingState
from hookline_testing.elastic_front_end import ElasticFrontEnd
from hookline_testing.oracle import Oracle


@pytest.fixture(params=[LoadBalancing.SCORE, LoadBalancing.PREFIX])
def elastic(request: pytest.FixtureRequest, llama: Oracle) -> Iterator[ElasticFrontEnd]:
    made = ElasticFrontEnd(llama.folder, request.param)
    yield made
    made.front_end.close()


def test_engines_that_join_get_requests(elastic: ElasticFrontEnd) -> None:
    """They have the blocks of the first; requests that ran before are not disturbed."""
    before = [elastic.submit(200) for _ in range(4)]
    elastic.scaling.want(3)
    while_starting = elastic.scaling.state, elastic.submit()
    elastic.client.get_ready()
    for _ in range(20):
        elastic.take()
    after = {elastic.submit(40) for _ in range(12)}
    elastic.drive()

    assert before == [0] * 4
    assert while_starting == (ScalingState((0,), (1, 2)), 0)
    assert after == {0, 1, 2}
    assert elastic.scaling.state == ScalingState((0, 1, 2))
    assert set(elastic.ends) == {RequestOutput}
    assert [each.facts.model.num_kv_blocks for each in elastic.front_end.engines] == [
        64
    ] * 3
    assert elastic.scaling.counts.added == 2


def test_engines_that_leave_finish_first(elastic: ElasticFrontEnd) -> None:
    """They get nothing more; received = finished, residue 0, and their gauges go."""
    elastic.grow(3)
    chosen = [elastic.submit(60) for _ in range(9)]
    for _ in range(12):
        elastic.take()
    engines = list(elastic.front_end.engines)
    elastic.scaling.want(1)
    leaving = elastic.scaling.state
    later = [elastic.submit() for _ in range(6)]
    with pytest.raises(EngineDeadError, match="fewer engines are wanted"):
        elastic.submit(to=2)
    elastic.news.pop()
    elastic.drive()

    assert sorted(set(chosen)) == [0, 1, 2]
    assert leaving == ScalingState((0,), (), (1, 2))
    assert later == [0] * 6
    assert set(elastic.ends) == {RequestOutput}
    assert [each.index for each in elastic.front_end.engines] == [0]
    for engine in engines:
        assert engine.stats.totals.residue == Residue()
        assert engine.accounting.residue == 0
        assert engine.stats.totals.received == sum(
            engine.stats.totals.finished.values()
        )
    assert sum(elastic.totals("hookline_requests_received").values()) == 15
    assert sum(elastic.totals("hookline_requests_finished").values()) == 15
    assert elastic.totals("hookline_engine_up") == {"0": 1.0}
    assert elastic.totals("hookline_requests_running") == {"0": 0.0}
    assert elastic.front_end.engines.num_ended == 15
    assert elastic.scaling.counts.removed == 2
    with pytest.raises(RequestError, match="must be 0 to 0"):
        elastic.submit(to=2)


def test_an_index_is_used_again(elastic: ElasticFrontEnd) -> None:
    """Its counters go on from where they were."""
    for _ in range(3):
        elastic.grow(2)
        assert elastic.submit(to=1) == 1
        elastic.drive()
        elastic.scaling.want(1)
        elastic.drive()

    assert elastic.totals("hookline_requests_received") == {"0": 0.0, "1": 3.0}
    assert elastic.totals("hookline_generation_tokens") == {"0": 0.0, "1": 12.0}
    assert elastic.scaling.counts.added == elastic.scaling.counts.removed == 3


def test_who_leaves_may_stay(elastic: ElasticFrontEnd) -> None:
    """An engine that still drains is kept before another is started."""
    elastic.grow(2)
    elastic.submit(100, to=1)
    for _ in range(5):
        elastic.take()
    elastic.scaling.want(1)
    elastic.scaling.want(2)

    assert elastic.scaling.state == ScalingState((0, 1))
    assert elastic.client.starting == []
    assert elastic.submit(to=1) == 1
    elastic.drive()
    assert set(elastic.ends) == {RequestOutput}


def test_an_engine_that_starts_is_given_up_first(elastic: ElasticFrontEnd) -> None:
    """It never joins, and its index is free once it has ended."""
    elastic.scaling.want(2)
    elastic.scaling.want(1)
    while_ending = elastic.scaling.state
    elastic.scaling.want(2)

    assert while_ending == ScalingState((0,), (), (1,))
    assert elastic.client.starting == [2]
    elastic.client.get_ready()
    elastic.drive()
    assert elastic.scaling.state == ScalingState((0, 2))
    assert elastic.scaling.counts.removed == 0


def test_a_start_that_fails_disturbs_nobody(elastic: ElasticFrontEnd) -> None:
    """The reason is kept until another engine has joined."""
    elastic.submit(50)
    elastic.scaling.want(3)
    elastic.client.fail_starts("no memory")
    elastic.drive()

    assert elastic.scaling.state == ScalingState((0,))
    assert elastic.scaling.failure == "no memory"
    assert elastic.scaling.counts.failed == 2
    assert elastic.ends == [RequestOutput]
    elastic.grow(2)
    assert elastic.scaling.failure is None


def test_the_place_of_a_dead_engine_is_taken(elastic: ElasticFrontEnd) -> None:
    """It counts no longer; the new engine has its index and its counters."""
    elastic.grow(2)
    elastic.submit(to=1)
    elastic.drive()
    elastic.client.kill(1)
    elastic.take()
    dead = elastic.scaling.state
    elastic.grow(2)
    elastic.submit(to=1)
    elastic.drive()

    assert dead == ScalingState((0,))
    assert elastic.scaling.state == ScalingState((0, 1))
    assert elastic.totals("hookline_requests_received")["1"] == 2.0
    assert elastic.totals("hookline_engine_up") == {"0": 1.0, "1": 1.0}


def test_a_death_while_draining_ends_its_requests(elastic: ElasticFrontEnd) -> None:
    """Their clients get an error, the others their answers; then it has left."""
    elastic.grow(2)
    elastic.submit(200, to=1)
    elastic.submit(20, to=0)
    for _ in range(6):
        elastic.take()
    elastic.scaling.want(1)
    elastic.client.kill(1)
    elastic.drive()

    assert elastic.ends == [EngineDeadError, RequestOutput]
    assert [each.index for each in elastic.front_end.engines] == [0]
    assert elastic.totals("hookline_requests_received") == {"0": 1.0, "1": 1.0}
    assert sum(elastic.totals("hookline_requests_finished").values()) == 2
    assert elastic.front_end.engines.residue == 0


def test_an_engine_that_never_gets_ready_is_given_up(elastic: ElasticFrontEnd) -> None:
    """After its time; it counts as a start that failed."""
    elastic.scaling._clock = clock = VirtualClock(elastic.scaling._clock.now())
    elastic.scaling.want(2)
    elastic.scaling.give_up_late(600.0)
    waiting = elastic.scaling.state
    clock.sleep(601.0)
    elastic.scaling.give_up_late(600.0)
    elastic.drive()

    assert waiting.starting == (1,)
    assert elastic.scaling.state == ScalingState((0,))
    assert elastic.scaling.failure == "it was not ready within 600 s"
    assert elastic.client.starting == []


def test_an_open_call_is_answered_before_the_end(elastic: ElasticFrontEnd) -> None:
    """An engine that has finished its requests still answers what it was asked."""
    elastic.grow(2)
    replies = elastic.front_end.call(ResetPrefixCache())
    elastic.scaling.want(1)
    elastic.drive()

    assert [each.result() for each in replies] == [Told(), Told()]
