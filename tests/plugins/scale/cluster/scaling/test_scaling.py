"""Calls that change the number of engines, and the task that does it by load."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from hookline.clock import VirtualClock
from hookline.config import Device, EngineConfig, ExecutorConfig
from hookline.engine.commands import Sleep
from hookline.exceptions import ConfigError, EngineDeadError, RequestError
from hookline.outputs import RequestOutput
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_cluster.config import ClusterConfig, EngineRange, MachinesConfig
from hookline_cluster.config.cluster import check_autoscale, check_scalable
from hookline_cluster.scaling.autoscaler import Autoscaler
from hookline_cluster.scaling.policy import ScalingPolicy
from hookline_cluster.scaling.scaling import Scaling
from hookline_server.engine_number import (
    DrainTimeoutError,
    ScalingBusyError,
    ScalingState,
    StartFailedError,
)
from hookline_testing.elastic_front_end import ElasticFrontEnd
from hookline_testing.oracle import Oracle

CONFIG = EngineConfig(in_process=False)


def of_cluster(**options: Any) -> EngineConfig:
    """A server whose section `cluster` has these values."""
    return replace(CONFIG, sections={"cluster": ClusterConfig(**options)})


SCALED = of_cluster(autoscale=EngineRange(1, 4))


@pytest.fixture
def elastic(llama: Oracle) -> Iterator[ElasticFrontEnd]:
    made = ElasticFrontEnd(llama.folder)
    yield made
    made.front_end.close()


@asynccontextmanager
async def scaling_of(
    elastic: ElasticFrontEnd, config: EngineConfig = CONFIG
) -> AsyncIterator[Scaling]:
    """Has the front end take its messages meanwhile."""

    async def drive() -> None:
        while True:
            elastic.take()
            await asyncio.sleep(0)

    driving = asyncio.create_task(drive())
    scaling = Scaling(
        elastic.front_end.engines,
        elastic.scaling,
        config,
        resized=elastic.sizes.append,
    )
    yield scaling
    await scaling.close()
    driving.cancel()


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - the front end is driven meanwhile
        await asyncio.sleep(0)


async def until_starting(elastic: ElasticFrontEnd) -> None:
    await until(lambda: bool(elastic.client.starting))


async def test_a_call_ends_when_the_engines_are_there(elastic: ElasticFrontEnd) -> None:
    """It answers with the engines; the front end learns of the highest rank."""
    async with scaling_of(elastic) as scaling:
        call = asyncio.create_task(scaling.scale(3))
        await until_starting(elastic)
        meanwhile = scaling.is_changing, call.done(), scaling.stats.starting
        elastic.client.get_ready()
        grown = await call
        shrunk = await scaling.scale(2)

    assert meanwhile == (True, False, 2)
    assert grown == ScalingState((0, 1, 2))
    assert shrunk == ScalingState((0, 1))
    assert elastic.sizes[-1] == 2
    assert max(elastic.sizes) == 3
    assert scaling.stats.decisions == (("request", 2),)
    assert (scaling.stats.added, scaling.stats.removed) == (2, 1)


async def test_each_second_tells_the_limits_without_reading_them(
    elastic: ElasticFrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A configuration without the section is made and checked when it is read."""
    async with scaling_of(elastic, SCALED) as scaling:
        monkeypatch.setattr(ClusterConfig, "of", None)
        found = [scaling.stats for _ in range(2)]

    assert [(each.minimum, each.maximum) for each in found] == [(1, 4)] * 2


async def test_one_change_at_a_time(elastic: ElasticFrontEnd) -> None:
    """A second call is refused, and the first goes on though its caller has left."""
    async with scaling_of(elastic) as scaling:
        call = asyncio.create_task(scaling.scale(2))
        await until_starting(elastic)
        call.cancel()
        with pytest.raises(ScalingBusyError):
            await scaling.scale(3)
        elastic.client.get_ready()
        await until(lambda: not scaling.is_changing)

    assert scaling.state == ScalingState((0, 1))


@pytest.mark.parametrize("number", [-1, 0, 65, 10**12])
async def test_impossible_numbers_are_refused(
    elastic: ElasticFrontEnd, number: int
) -> None:
    """They are 1 to 64."""
    async with scaling_of(elastic) as scaling:
        with pytest.raises(RequestError, match="must be 1 to 64") as refused:
            await scaling.scale(number)

    assert refused.value.param == "data_parallel_size"


async def test_a_failing_start_is_an_error(elastic: ElasticFrontEnd) -> None:
    """Those that have joined stay, and the next call may succeed."""
    async with scaling_of(elastic) as scaling:
        call = asyncio.create_task(scaling.scale(2))
        await until_starting(elastic)
        elastic.client.fail_starts("no memory is left")
        with pytest.raises(StartFailedError, match="no memory is left"):
            await call
        failed = scaling.state, scaling.wanted
        again = asyncio.create_task(scaling.scale(2))
        await until_starting(elastic)
        elastic.client.get_ready()
        await again

    assert failed == (ScalingState((0,)), 1)
    assert scaling.state == ScalingState((0, 1))


async def test_engines_that_do_not_drain_in_time_stay(
    elastic: ElasticFrontEnd,
) -> None:
    """Their requests go on, and new ones come to them."""
    elastic.grow(2)
    elastic.submit(200, to=1)
    async with scaling_of(elastic) as scaling:
        with pytest.raises(DrainTimeoutError, match="within 0 s") as late:
            await scaling.scale(1, drain_seconds=0.0)
        assert elastic.submit(to=1) == 1
    elastic.drive()

    assert late.value.engines == (1,)
    assert scaling.state == ScalingState((0, 1))
    assert elastic.ends == [RequestOutput] * 2


async def test_the_end_of_the_server_ends_a_call(elastic: ElasticFrontEnd) -> None:
    """It does not wait for an engine that still starts, and no more calls come."""
    async with scaling_of(elastic) as scaling:
        call = asyncio.create_task(scaling.scale(2))
        await until_starting(elastic)
        scaling.stop()
        with pytest.raises(EngineDeadError, match="shutting down"):
            await call
        with pytest.raises(EngineDeadError, match="shutting down"):
            await scaling.scale(1)


async def test_sleeping_engines_are_left_alone(elastic: ElasticFrontEnd) -> None:
    """One that joined would be awake."""
    elastic.front_end.call(Sleep())
    while not elastic.front_end.engines.is_asleep:
        elastic.take()
    async with scaling_of(elastic) as scaling:
        with pytest.raises(ScalingBusyError, match="wake them up"):
            await scaling.scale(2)


@pytest.mark.parametrize(
    ("config", "option"),
    [
        (EngineConfig(), "in-process"),
        (
            of_cluster(machines=MachinesConfig(rank=0)),
            "data-parallel-rank",
        ),
        (replace(CONFIG, engine="other"), "engine"),
        (
            of_cluster(data_parallel_size=2, machines=MachinesConfig(size_local=1)),
            "data-parallel-size-local",
        ),
        (
            of_cluster(
                data_parallel_size=2,
                machines=MachinesConfig(backend="ray", size_local=1),
            ),
            "data-parallel-size-local",
        ),
        (replace(CONFIG, executor=ExecutorConfig(device=Device.CUDA)), "device"),
    ],
)
def test_what_is_fixed_is_refused_by_its_option(
    config: EngineConfig, option: str
) -> None:
    """Of calls, and at the start with `--autoscale`."""
    cluster = replace(ClusterConfig.of(config), autoscale=EngineRange(1, 4))
    with pytest.raises(ConfigError) as refused:
        check_scalable(config)
    with pytest.raises(ConfigError, match=f"with --{option}") as scaled:
        check_autoscale(replace(config, sections={"cluster": cluster}))
    check_autoscale(config)

    assert refused.value.option == option
    assert scaled.value.option == "autoscale"


async def test_a_server_that_scales_itself_takes_no_calls(
    elastic: ElasticFrontEnd,
) -> None:
    """The error names the option."""
    async with scaling_of(elastic, SCALED) as scaling:
        with pytest.raises(ConfigError, match="1:4") as refused:
            await scaling.scale(2)

    assert refused.value.option == "autoscale"
    assert (scaling.stats.minimum, scaling.stats.maximum) == (1, 4)


async def test_several_front_ends_share_a_fixed_number(
    elastic: ElasticFrontEnd,
) -> None:
    """The error names the option."""
    elastic.client.owns_engines = False
    async with scaling_of(elastic) as scaling:
        with pytest.raises(ConfigError) as refused:
            await scaling.scale(2)

    assert refused.value.option == "api-server-count"


class Load:
    """A load that engines share, in engines, and a clock that a test moves.

    Attributes:
        demand: The load.
    """

    def __init__(self, elastic: ElasticFrontEnd, scaling: Scaling) -> None:
        self.demand = 0.0
        self.clock = VirtualClock()
        self._elastic = elastic
        self._scaling = scaling
        self._autoscaler = Autoscaler(
            scaling,
            elastic.front_end.engines,
            self._saturation_of,
            ScalingPolicy(minimum=1, maximum=4, quiet_seconds=60.0),
            self.clock,
        )

    def _saturation_of(self, _: int) -> float:
        return self.demand / len(self._scaling.state.serving)

    def decide(self, seconds: float = 5.0) -> None:
        self.clock.sleep(seconds)
        self._autoscaler.decide()


async def test_the_load_decides(elastic: ElasticFrontEnd) -> None:
    """Engines come with it and go after it; every decision is counted by its reason."""
    async with scaling_of(elastic, SCALED) as scaling:
        load = Load(elastic, scaling)
        load.decide()
        load.demand = 1.5
        load.decide()
        coming = scaling.state
        elastic.client.get_ready()
        elastic.drive()
        load.demand = 9.0
        load.decide()
        elastic.client.get_ready()
        elastic.drive()
        most = scaling.state
        load.demand = 0.1
        for _ in range(13):
            load.decide()
        elastic.drive()

    assert coming == ScalingState((0,), (1, 2))
    assert most == ScalingState((0, 1, 2, 3))
    assert scaling.state == ScalingState((0,))
    counts = dict(scaling.stats.decisions)
    assert (counts["demand"], counts["maximum"], counts["quiet"]) == (1, 1, 1)
    assert (scaling.stats.added, scaling.stats.removed) == (3, 3)


async def test_a_noisy_load_does_not_flap(elastic: ElasticFrontEnd) -> None:
    """Once there are engines enough for its peaks, the number stays."""
    async with scaling_of(elastic, SCALED) as scaling:
        load = Load(elastic, scaling)
        for step in range(200):
            load.demand = (0.5, 1.3, 0.9)[step % 3]
            load.decide()
            elastic.client.get_ready()
            elastic.drive()

    assert scaling.state == ScalingState((0, 1))
    assert (scaling.stats.added, scaling.stats.removed) == (1, 0)


async def test_a_draining_engine_stays_if_the_load_returns(
    elastic: ElasticFrontEnd,
) -> None:
    """None is started for it."""
    elastic.grow(2)
    async with scaling_of(elastic, SCALED) as scaling:
        load = Load(elastic, scaling)
        elastic.submit(200, to=1)
        for _ in range(14):
            load.decide()
        draining = scaling.state
        load.demand = 1.0
        load.decide()
        elastic.drive()

    assert draining == ScalingState((0,), (), (1,))
    assert scaling.state == ScalingState((0, 1))
    assert scaling.stats.added == 1


async def test_after_failures_it_waits_longer_and_longer(
    elastic: ElasticFrontEnd,
) -> None:
    """5 s, 10 s, 20 s, …: an engine that cannot start is not started all the time."""
    async with scaling_of(elastic, SCALED) as scaling:
        load = Load(elastic, scaling)
        load.demand = 1.0
        tries = []
        for second in range(60):
            load.decide(1.0)
            if elastic.client.starting:
                tries.append(second)
                elastic.client.fail_starts("no")
                await until(lambda: not scaling.state.starting)

    assert tries == [0, 6, 17, 38]
    assert scaling.stats.failed == 4


async def test_a_dead_engine_is_replaced_after_a_while(
    elastic: ElasticFrontEnd,
) -> None:
    """There are at least as many as must be."""
    elastic.grow(2)
    async with scaling_of(elastic, SCALED) as scaling:
        load = Load(elastic, scaling)
        load.demand = 1.0
        elastic.client.kill(0)
        await until(lambda: scaling.state.serving == (1,))
        load.decide()
        at_once = scaling.state
        load.decide()

    assert at_once == ScalingState((1,))
    assert scaling.state == ScalingState((1,), (0,))


async def test_sleep_stops_decisions(elastic: ElasticFrontEnd) -> None:
    """Engines that sleep have no load, and are not ended for that."""
    elastic.grow(2)
    async with scaling_of(elastic, SCALED) as scaling:
        load = Load(elastic, scaling)
        for engine in elastic.front_end.engines:
            engine.stats = SchedulerStats(sleep_level=1)
        for _ in range(20):
            load.decide()

    assert scaling.state == ScalingState((0, 1))
    assert scaling.stats.decisions == ()


async def test_a_decision_that_fails_is_not_the_last(
    elastic: ElasticFrontEnd, caplog: pytest.LogCaptureFixture
) -> None:
    """It is in the log, and the next one is made."""
    asked: list[int] = []

    def saturation_of(index: int) -> float:
        asked.append(index)
        raise ValueError("no number")

    async with scaling_of(elastic, SCALED) as scaling:
        policy = ScalingPolicy(minimum=1, maximum=2)
        engines = elastic.front_end.engines
        scaler = Autoscaler(scaling, engines, saturation_of, policy, VirtualClock())
        scaling.adopt(asyncio.create_task(scaler.run(0.0)))
        await until(lambda: len(asked) > 2)

    assert (
        "could not choose the number of engines: ValueError: no number" in caplog.text
    )
