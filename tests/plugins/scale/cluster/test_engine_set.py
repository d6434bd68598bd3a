"""Two engines behind one front end: each is charged with what is its own."""

import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from hookline.clock import SystemClock
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ModelConfig,
    ObserverConfig,
)
from hookline.engine.commands import ResetPrefixCache, Told
from hookline.engine.engine_core import EngineCore
from hookline.engine.engine_loop import EngineLoop
from hookline.engine.worker.executor import StartedStep
from hookline.engine_setup.building import build_core
from hookline.exceptions import EngineDeadError
from hookline.frontend.client_request import Delivery
from hookline.frontend.front_end import FrontEnd
from hookline.frontend.observation import Observers
from hookline.outputs import RequestOutput
from hookline.payloads import (
    EngineFailed,
    EngineStarted,
    EngineStopped,
    RequestsFinished,
    StateChanged,
    StepFinished,
)
from hookline.sampling_params import SamplingParams
from hookline.stats.scheduler_stats import Residue
from hookline.step import StepPlan
from hookline.tokenizer import Tokenizer
from hookline.transport.engine_client import EngineClient
from hookline.transport.inproc_client import InprocClient
from hookline_cluster.clients.owner_client import OwnerClient
from hookline_cluster.extension import extend
from hookline_process_engine.process_client import ProcessClient
from hookline_process_engine.supervision.config import SupervisionConfig
from hookline_simulated.config import SimulationConfig
from hookline_testing import PluginSite
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle
from hookline_testing.own_time import Deadline
from hookline_testing.paced_client import core_of

WAIT_SECONDS = 20.0
pytestmark = pytest.mark.usefixtures("site")  # the loggers that configs name


@pytest.fixture
def site(tmp_path: Path) -> Iterator[PluginSite]:
    folder = tmp_path / "site"
    folder.mkdir()
    with PluginSite(folder) as site:
        site.install_recorder()
        yield site


@pytest.fixture
def configs(llama: Oracle) -> list[EngineConfig]:
    """Engine 1 takes twice the time of engine 0 for a step, and has half its blocks."""
    base = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        observers=ObserverConfig(stat_loggers=("recorder",), heartbeat_seconds=0.05),
    )
    return [
        replace(
            base,
            engine_index=index,
            cache=CacheConfig(num_kv_blocks=64 // (1 + index)),
            executor=ExecutorConfig(name="simulated"),
            sections={"simulated": SimulationConfig(step_seconds=0.002 * (1 + index))},
        )
        for index in range(2)
    ]


class Driven:
    """A front end over several engines, driven by the test."""

    def __init__(self, client: EngineClient, config: EngineConfig) -> None:
        tokenizer = Tokenizer.load(Path(config.model.model))
        self.front_end = FrontEnd(
            client,
            tokenizer,
            Observers(config),
            extend=partial(extend, config),
        )
        self.news: dict[int, list[Delivery]] = {}

    def submit(self, max_tokens: int = 20, to: int | None = None) -> int:
        """Submits a request; returns the index of the engine that got it."""
        number = len(self.news)
        self.news[number] = []
        prepared = self.front_end.prepare(
            [3 + number % 300, 4, 5],
            SamplingParams(max_tokens=max_tokens, ignore_eos=True),
        )
        request = self.front_end.submit(
            prepared,
            self.news[number].append,
            arrived_at=0,
            is_streamed=False,
            to=to,
        )
        return request.engine_index

    def drive(self, seconds: float = 0.0) -> None:
        """Takes everything in until no request is open and the time is over."""
        end = time.monotonic() + seconds
        deadline = Deadline(WAIT_SECONDS)
        while self.front_end.engines.num_unconfirmed or time.monotonic() < end:
            assert deadline.is_ahead
            self.take(0.02)

    def take(self, timeout_seconds: float) -> None:
        received = self.front_end.engines.client.receive(timeout_seconds)
        if received is not None:
            self.front_end.on_message(received)


@contextmanager
def two_engines(configs: list[EngineConfig], *, in_process: bool) -> Iterator[Driven]:
    client: EngineClient
    if in_process:
        cores = [build_core(config, SystemClock()) for config in configs]
        client = InprocClient(*[EngineLoop(core, 0.05) for core in cores])
    else:
        client = OwnerClient(*configs)
    with closing(client):
        driven = Driven(client, configs[0])
        with closing(driven.front_end):
            yield driven


T = TypeVar("T")


def payloads(site: PluginSite, kind: type[T]) -> list[T]:
    return [payload for _, payload in site.calls() if isinstance(payload, kind)]


@pytest.mark.parametrize("in_process", [True, False])
def test_each_engine_is_charged_with_its_own(
    configs: list[EngineConfig], site: PluginSite, *, in_process: bool
) -> None:
    """States, heartbeats, steps and totals carry the index of their engine."""
    with two_engines(configs, in_process=in_process) as driven:
        chosen = [driven.submit() for _ in range(6)]
        driven.drive(seconds=0.3)
        assert driven.front_end.observers.flush(WAIT_SECONDS)
        engines = list(driven.front_end.engines)

    assert sorted(chosen) == [0, 0, 0, 1, 1, 1]
    assert [each.stats.kv_blocks for each in engines] == [64, 32]
    assert [each.facts.model.num_kv_blocks for each in engines] == [64, 32]
    for engine in engines:
        assert engine.stats.totals.received == engine.accounting.received == 3
        assert (
            engine.stats.totals.finished == engine.accounting.finished == {"length": 3}
        )
        assert engine.stats.totals.residue == Residue()
        assert engine.accounting.residue == 0
    for index, blocks in enumerate((64, 32)):
        states = [s for s in payloads(site, StateChanged) if s.engine_index == index]
        beats = [state for state in states if state.cause == "heartbeat"]
        assert len(beats) >= 3
        assert all(each.scheduler.kv_blocks == blocks for each in beats)
        assert [state.cause for state in states].count("drain") == 1
        steps = [s for s in payloads(site, StepFinished) if s.engine_index == index]
        assert sum(step.iteration.generation_tokens for step in steps) == 60
        assert sum(len(step.iteration.finished) for step in steps) == 3
        assert all(step.record.engine_index == index for step in steps)
    assert [each.facts.engine_index for each in payloads(site, EngineStarted)] == [0, 1]
    assert [each.engine_index for each in payloads(site, EngineStopped)] == [0, 1]
    ends = payloads(site, RequestsFinished)
    assert {each.engine_index for each in ends} == {0, 1}
    ids = [event.request_id for each in ends for event in each.events]
    assert sorted(ids) == [1, 2, 3, 4, 5, 6]


def break_engine(core: EngineCore) -> None:
    """From its fourth step on, each step of the engine fails."""
    start = core._executor.start

    def fail_in_time(plan: StepPlan) -> StartedStep:
        if plan.step > 3:
            raise RuntimeError("the device fell off")
        return start(plan)

    core._executor.start = fail_in_time  # type: ignore[method-assign]


def test_a_death_ends_the_requests_of_its_engine_only(
    configs: list[EngineConfig], site: PluginSite
) -> None:
    """The other engine goes on and takes new requests; then it dies, too."""
    with two_engines(configs, in_process=True) as driven:
        client = driven.front_end.engines.client
        assert isinstance(client, InprocClient)
        break_engine(core_of(client, 1))
        chosen = [driven.submit() for _ in range(4)]
        driven.drive()
        later = [driven.submit() for _ in range(2)]
        driven.drive()
        first, second = driven.front_end.engines
        failure = driven.front_end.engines.failure
        break_engine(core_of(client, 0))
        driven.submit()
        driven.drive()
        with pytest.raises(EngineDeadError, match="fell off"):
            driven.submit()
        with pytest.raises(EngineDeadError, match="fell off"):
            driven.front_end.call(ResetPrefixCache())
        assert driven.front_end.observers.flush(WAIT_SECONDS)

    assert sorted(chosen) == [0, 0, 1, 1]
    for number, index in enumerate(chosen):
        [news] = driven.news[number]
        assert isinstance(news, RequestOutput if index == 0 else EngineDeadError)
    assert later == [0, 0]
    assert failure is None
    assert driven.front_end.engines.failure == "RuntimeError: the device fell off"
    assert second.accounting.finished == {"error": 2}
    assert second.stats.totals.received == 2
    assert first.accounting.finished == {"length": 4, "error": 1}
    assert [e.accounting.residue for e in driven.front_end.engines] == [0, 0]
    failed = payloads(site, EngineFailed)
    assert [(each.engine_index, each.open_requests) for each in failed] == [
        (1, 2),
        (0, 1),
    ]
    assert payloads(site, EngineStopped) == []


@pytest.mark.parametrize(
    "number",
    essential([signal.SIGKILL, signal.SIGSEGV], signal.SIGKILL, slow=[signal.SIGSEGV]),
)
def test_a_killed_process_leaves_the_other(
    configs: list[EngineConfig], number: signal.Signals
) -> None:
    """Its requests move there, unless they may be the reason of its end."""
    with two_engines(configs, in_process=False) as driven:
        client = driven.front_end.engines.client
        assert isinstance(client, ProcessClient)
        chosen = [driven.submit(max_tokens=100) for _ in range(4)]
        client._launched[0].signal(number)
        driven.drive()
        kinds = [type(driven.news[number][-1]) for number in range(4)]
        assert driven.front_end.engines.failure is None
        assert number.name in (driven.front_end.engines[0].failure or "")
        assert driven.submit(max_tokens=2) == 1
        driven.drive()
        first, second = driven.front_end.engines

    is_kill = number is signal.SIGKILL
    for index, kind in zip(chosen, kinds, strict=True):
        assert kind is (RequestOutput if is_kill or index else EngineDeadError)
    assert first.accounting.finished == ({} if is_kill else {"error": 2})
    assert second.accounting.finished == {"length": 5 if is_kill else 3}
    assert [first.stats.totals.received, second.stats.totals.received] == [2, 3]
    assert [first.accounting.residue, second.accounting.residue] == [0, 0]
    assert second.stats.totals.residue == Residue()


def test_a_death_is_told_while_others_keep_sending(
    configs: list[EngineConfig],
) -> None:
    """It does not wait for a moment in which no engine has sent anything."""
    with two_engines(configs, in_process=False) as driven:
        client = driven.front_end.engines.client
        assert isinstance(client, ProcessClient)
        first, second = driven.front_end.engines
        driven.submit(max_tokens=200, to=0)
        client._launched[0]._process.kill()
        deadline = Deadline(WAIT_SECONDS)
        while first.failure is None:
            assert deadline.is_ahead
            if second.accounting.num_in_flight < 2:
                driven.submit(max_tokens=200, to=1)
            driven.take(0.02)
        driven.drive()
        ends = [type(news[-1]) for news in driven.news.values()]

    assert ends == [EngineDeadError] + [RequestOutput] * (len(ends) - 1)


@pytest.mark.exhaustive
def test_a_killed_process_is_replaced_beside_the_other(
    configs: list[EngineConfig], site: PluginSite
) -> None:
    """What was sent for this engine begins again there; the other serves meanwhile."""
    supervised = SupervisionConfig(engine_restart=1)
    configs = [
        replace(each, sections={**each.sections, "supervision": supervised})
        for each in configs
    ]
    with two_engines(configs, in_process=False) as driven:
        client = driven.front_end.engines.client
        assert isinstance(client, ProcessClient)
        chosen = [driven.submit(max_tokens=100, to=index) for index in (0, 1, 0, 1)]
        client._launched[0]._process.kill()
        while driven.front_end.engines[0].death is None:
            driven.take(0.02)
        meanwhile = [driven.submit(max_tokens=2) for _ in range(2)]
        driven.drive()
        later = [driven.submit(max_tokens=20) for _ in range(2)]
        driven.drive()
        last = [driven.news[number][-1] for number in range(8)]
        first, second = driven.front_end.engines
        assert driven.front_end.observers.flush(WAIT_SECONDS)

    assert chosen.count(0) == 2
    assert meanwhile == [1, 1]
    assert sorted(later) == [0, 1]
    assert all(isinstance(each, RequestOutput) and each.finished for each in last)
    assert first.accounting.finished == {"length": 3}
    assert second.accounting.finished == {"length": 5}
    assert first.stats.totals.residue == second.stats.totals.residue == Residue()
    assert [each.resubmitted for each in payloads(site, EngineStarted)] == [0, 0, 2]
    assert [each.is_final for each in payloads(site, EngineFailed)] == [False]


def test_the_least_loaded_engine_is_chosen(configs: list[EngineConfig]) -> None:
    """A request on its way counts; so does what an engine has had for long."""
    with two_engines(configs, in_process=True) as driven:
        first = driven.submit(max_tokens=200)
        driven.submit(max_tokens=1)
        short = driven.front_end.engines[1 - first]
        while not short.stats.totals.finished:
            driven.take(0.01)

        assert driven.submit() == 1 - first
        driven.drive()


def test_calls_reach_every_engine(configs: list[EngineConfig]) -> None:
    """One command, a reply of each engine; a dead engine's call ends with an error."""
    with two_engines(configs, in_process=True) as driven:
        replies = driven.front_end.call(ResetPrefixCache())
        while not all(reply.done() for reply in replies):
            driven.take(0.01)
        late = driven.front_end.call(ResetPrefixCache())
        driven.front_end.fail("it broke")

    assert [reply.result() for reply in replies] == [Told(), Told()]
    assert [str(reply.exception()) for reply in late] == [
        "the engine is not running: it broke"
    ] * 2
