"""The saturation that decides is the one that `/metrics` shows."""

from collections.abc import Iterator

import msgspec
import pytest

from hookline.events import ClockPair, StepOutput
from hookline.payloads import StepFinished
from hookline.stats.iteration_stats import FirstToken, IterationStats
from hookline.stats.scheduler_stats import EngineTotals, SchedulerStats
from hookline_cluster.clients.other_clients_load import OTHERS_WORK
from hookline_cluster.scaling.saturation_watch import SaturationWatch
from hookline_metrics.saturation import OthersWork, Saturation
from hookline_testing.elastic_front_end import ElasticFrontEnd
from hookline_testing.oracle import Oracle
from hookline_testing.payloads import FACTS, MILLISECOND, RECORD


@pytest.fixture
def elastic(llama: Oracle) -> Iterator[ElasticFrontEnd]:
    made = ElasticFrontEnd(llama.folder)
    yield made
    made.front_end.close()


def test_it_is_that_of_the_metrics(elastic: ElasticFrontEnd) -> None:
    """Of each engine, to the last digit; that of an engine that has left is 0."""
    saturations = elastic.extension.saturations
    assert saturations is not None
    elastic.grow(2)
    for _ in range(40):
        elastic.submit(20)
        elastic.take()
    elastic.drive()
    values = {str(index): saturations.value(index) for index in (0, 1)}
    shown = elastic.totals("hookline_saturation_ratio")
    elastic.scaling.want(1)
    elastic.drive()

    assert values == shown
    assert min(values.values()) > 0
    assert saturations.value(1) == 0.0


def test_a_dead_engine_has_none(elastic: ElasticFrontEnd) -> None:
    """Another one in its place begins with nothing."""
    saturations = elastic.extension.saturations
    assert saturations is not None
    elastic.grow(2)
    for _ in range(40):
        elastic.submit(20, to=1)
        elastic.take()
    elastic.drive()
    before = saturations.value(1)
    elastic.client.kill(1)
    elastic.take()
    dead = saturations.value(1)
    elastic.grow(2)

    assert before > 0
    assert dead == saturations.value(1) == 0.0


def test_requests_of_other_front_ends_count(elastic: ElasticFrontEnd) -> None:
    """An engine tells its owner of them in numbers: the same load is the same value."""
    saturations = elastic.extension.saturations
    assert saturations is not None
    own, owners = Saturation(FACTS), SaturationWatch(saturations._observers)
    owners.started(FACTS, ClockPair(0, 0))
    for step in range(1, 200):
        record = msgspec.structs.replace(
            RECORD,
            step=step,
            started_at=step * 10 * MILLISECOND,
            ended_at=(step + 1) * 10 * MILLISECOND,
        )
        stats = SchedulerStats(running=1, totals=EngineTotals(received=step))
        iteration = IterationStats(
            first_tokens=(FirstToken(seconds=0.1, is_streamed=False),),
            prompt_tokens_local=4,
        )
        own.step(
            StepFinished(
                engine_index=0, record=record, iteration=iteration, scheduler=stats
            )
        )
        work = OthersWork(begun=1, cached_tokens=4, ended=0)
        sections = {OTHERS_WORK.name: work}
        output = StepOutput(
            0, record.ended_at, "step", stats, record, sections=sections
        )
        owners.observe(output, IterationStats(), {})

    assert own.value() > 0
    assert owners.value(0) == pytest.approx(own.value(), rel=0.02)
