"""Several front ends, restarts and deaths: what loggers get adds up."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import msgspec
import pytest

from hookline.config import EngineConfig, ObserverConfig
from hookline.events import ClockPair, Finished, StepOutput
from hookline.exceptions import ConfigError
from hookline.finish_cause import Aborted
from hookline.front_end_parts import TransportStats
from hookline.frontend.observing import ObserverAddress
from hookline.frozen import frozen_map
from hookline.payloads import (
    EngineFailed,
    EngineStarted,
    FrontEndChanged,
    HttpAnswered,
    RecordsLogged,
    RequestsFinished,
    StateChanged,
)
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import EngineTotals, SchedulerStats
from hookline.transport.engine_client import SecondaryClientEnded
from hookline_metrics.front_end_parts import ConnectionStats, ObserverStats
from hookline_observer.link import OBSERVER
from hookline_observer.messages import Join, Notices
from hookline_observer.remote_observers import RemoteObservers
from hookline_offline.llm import LLM
from hookline_process_engine.ipc import IpcTransport, ipc_address
from hookline_process_engine.mailbox import Mailbox
from hookline_process_engine.transport import Party, Role
from hookline_testing import PluginSite
from hookline_testing.hosted_observer import HostedObserver
from hookline_testing.own_time import Deadline
from hookline_testing.payloads import FACTS

PATIENCE_SECONDS = 30.0
CLOCK = ClockPair(wall=0, monotonic=0)


def config(lane_batches: int = 1024) -> EngineConfig:
    observers = ObserverConfig(
        stat_loggers=("there",), lane_batches=lane_batches, linger_seconds=0.01
    )
    return EngineConfig(observers=observers)


@pytest.fixture
def hosted(site: PluginSite) -> Iterator[HostedObserver]:
    del site  # it need only be there
    with HostedObserver(config()) as hosted:
        yield hosted


@contextmanager
def front_end(hosted: HostedObserver, index: int = 0) -> Iterator[RemoteObservers]:
    observers = RemoteObservers(config(), hosted.address(index))
    try:
        yield observers
    finally:
        observers.close(PATIENCE_SECONDS)


def state(received: int, finished: int, at: int = 0) -> StepOutput:
    stats = SchedulerStats(
        totals=EngineTotals(received=received, finished={"stop": finished})
    )
    return StepOutput(0, at, "heartbeat", stats)


def in_flight(count: int) -> HttpAnswered:
    load = frozen_map({("/v1/completions", "POST"): count})
    return HttpAnswered(exchanges=(), in_flight=load)


def until(holds: Callable[[], object]) -> None:
    deadline = Deadline(PATIENCE_SECONDS)
    while not holds():
        assert deadline.is_ahead, "it did not happen"
        time.sleep(0.01)


def told(site: PluginSite, kind: type[object]) -> list[object]:
    return [each for _, each in site.calls("there") if isinstance(each, kind)]


def test_front_ends_are_added_up(site: PluginSite, hosted: HostedObserver) -> None:
    """
    HTTP requests in flight and connections of two front ends are sums, and what one of
    them had is gone when it leaves.
    """
    with front_end(hosted, 0) as stays:
        with front_end(hosted, 1) as leaves:
            for each, count in ((stays, 2), (leaves, 3)):
                each.http_answered(in_flight(count))
                each.front_end_changed((ConnectionStats(open=count, maximum=9),))
                assert each.flush(PATIENCE_SECONDS)
        stays.records_logged(RecordsLogged(records=()))
        assert stays.flush(PATIENCE_SECONDS)

        *_, both, one = told(site, HttpAnswered)
        assert both == in_flight(5)
        assert one == in_flight(2)
        parts = [
            part
            for each in told(site, FrontEndChanged)
            if isinstance(each, FrontEndChanged)
            for part in each.parts
            if isinstance(part, ConnectionStats)
        ]
        assert [part.open for part in parts] == [2, 5, 2]


def test_a_front_end_that_was_killed_is_noticed(
    site: PluginSite, hosted: HostedObserver
) -> None:
    """
    When a front end's process has ended without a word, its gauges are taken back.
    """
    dead = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    address = hosted.address(1)
    me = Party(Role.CLIENT, 1)
    transport = IpcTransport(address.folder, me)
    transport.connect(OBSERVER, ipc_address(address.folder, OBSERVER), max_waiting=9)
    mailbox: Mailbox[object] = Mailbox(
        transport, me, msgspec.msgpack.Decoder(object), lambda _: address.key
    )
    with closing(transport), front_end(hosted, 0) as alive:
        mailbox.post(OBSERVER, Join(dead.pid))
        until(lambda: mailbox.receive(0.01))
        mailbox.post(OBSERVER, Notices(dead.pid, 5, 0.5, []))
        until(lambda: observed(site, front_ends=1, dropped=5))
        alive.front_end_changed((TransportStats(dropped=1),))
        alive.flush(PATIENCE_SECONDS)
        until(lambda: observed(site, front_ends=2, dropped=5))

        dead.kill()
        dead.communicate()

        until(lambda: observed(site, front_ends=1, dropped=5))


def observed(site: PluginSite, *, front_ends: int, dropped: int) -> bool:
    """Whether this is the latest that was told of the observer itself."""
    stats = [
        part
        for each in told(site, FrontEndChanged)
        if isinstance(each, FrontEndChanged)
        for part in each.parts
        if isinstance(part, ObserverStats)
    ]
    latest = stats[-1] if stats else ObserverStats()
    return (latest.front_ends, latest.dropped) == (front_ends, dropped)


def test_a_new_observer_knows_what_is(site: PluginSite, hosted: HostedObserver) -> None:
    """
    After a restart loggers are told of the engines and of the front end's parts, and
    that requests which ended before were not received by them. What came meanwhile is
    not told twice.
    """
    with front_end(hosted) as observers:
        observers.started(FACTS, CLOCK)
        observers.front_end_changed((ConnectionStats(open=1, maximum=9),))
        observers.observe(state(received=5, finished=3, at=1), IterationStats(), {})
        assert observers.flush(PATIENCE_SECONDS)
        hosted.end()
        before = len(site.calls("there"))
        observers.observe(state(received=7, finished=4, at=2), IterationStats(), {})

        hosted.begin()
        until(lambda: told(site, EngineStarted)[1:])
        observers.observe(state(received=8, finished=4, at=3), IterationStats(), {})
        assert observers.flush(PATIENCE_SECONDS)

    after = [each for _, each in site.calls("there")][before:]
    first, *rest = [each for each in after if not isinstance(each, FrontEndChanged)]
    assert first == EngineStarted(facts=FACTS, clock=CLOCK, ended_before=4)
    assert [
        each.scheduler.totals.received
        for each in rest
        if isinstance(each, StateChanged)
    ] == [8]
    assert told(site, FrontEndChanged)
    (lane,) = hosted.observers.lanes
    assert lane.dropped == 1


def test_books_of_several_front_ends_balance_after_a_restart(
    site: PluginSite, hosted: HostedObserver
) -> None:
    """
    A new observer counts each end once, whether a secondary client tells of it before
    or after the engine's owner tells how many had ended.
    """
    with front_end(hosted, 0) as owner, front_end(hosted, 1) as secondary:
        owner.started(FACTS, CLOCK)
        owner.observe(state(received=1, finished=0, at=1), IterationStats(), {})
        assert owner.flush(PATIENCE_SECONDS)
        assert secondary.flush(PATIENCE_SECONDS)
        hosted.end()
        before = len(site.calls("there"))
        for at in (2, 3, 4):  # an end each, of which the owner hears the first two
            if at < 4:
                owner.observe(state(3, finished=at - 1, at=at), IterationStats(), {})
            secondary.observe(
                StepOutput(0, at, "requests", SchedulerStats()),
                IterationStats(generation_tokens=at),
                {},
            )
        secondary.http_answered(in_flight(1))

        hosted.begin()
        until(lambda: told(site, EngineStarted)[1:])
        until(lambda: told(site, HttpAnswered))
        assert owner.flush(PATIENCE_SECONDS)
        assert secondary.flush(PATIENCE_SECONDS)

    after = [each for _, each in site.calls("there")][before:]
    starts = [each for each in after if isinstance(each, EngineStarted)]
    assert [each.ended_before for each in starts] == [2]
    ends = [each for each in after if isinstance(each, StateChanged)]
    assert [each.iteration.generation_tokens for each in ends] == [4]


def test_ends_before_a_restart_are_not_told_for_a_dead_guest(
    site: PluginSite, hosted: HostedObserver
) -> None:
    """
    When a secondary client dies after a restart, only its ends since then are told in
    its place.
    """
    ends = [Finished(request_id, request_id, Aborted("x"), 1) for request_id in (1, 9)]
    with front_end(hosted, 0) as owner:
        owner.started(FACTS, CLOCK)
        owner.observe(state(received=1, finished=1, at=5), IterationStats(), {})
        assert owner.flush(PATIENCE_SECONDS)
        hosted.end()
        owner.records_logged(RecordsLogged(records=()))
        hosted.begin()
        until(lambda: told(site, EngineStarted)[1:])
        with front_end(hosted, 1):
            pass
        owner.observe(state(received=2, finished=2, at=9), IterationStats(), {})
        owner.front_end_ended(SecondaryClientEnded(0, 1, ends))
        assert owner.flush(PATIENCE_SECONDS)

    finished = [
        event.request_id
        for each in told(site, RequestsFinished)
        if isinstance(each, RequestsFinished)
        for event in each.events
    ]
    assert finished == [9]


def test_an_engines_failure_is_told_once_with_the_requests_of_all(
    site: PluginSite, hosted: HostedObserver
) -> None:
    """
    Its owner has had none there, and each of the others tells of its own.
    """
    with (
        front_end(hosted, 0) as owner,
        front_end(hosted, 1) as one,
        front_end(hosted, 2) as other,
    ):
        owner.started(FACTS, CLOCK)
        for each in (owner, one, other):
            each.front_end_changed((TransportStats(dropped=0),))
            assert each.flush(PATIENCE_SECONDS)
        for each, ended in ((one, 63), (owner, 0), (other, 78)):
            each.failed(
                EngineFailed(engine_index=0, reason="it fell", open_requests=ended)
            )
        until(lambda: told(site, EngineFailed))

    assert told(site, EngineFailed) == [
        EngineFailed(engine_index=0, reason="it fell", open_requests=141, is_final=True)
    ]


def test_what_the_observer_does_not_take_is_dropped(site: PluginSite) -> None:
    """
    While no observer takes notices nobody waits, the oldest are dropped, and each lane
    counts them as dropped once it goes on.
    """
    with HostedObserver(config()) as hosted:
        observers = RemoteObservers(config(lane_batches=8), hosted.address())
        observers.started(FACTS, CLOCK)
        assert observers.flush(PATIENCE_SECONDS)
        hosted.end()

        for number in range(2000):
            observers.observe(state(number, 0, at=number), IterationStats(), {})
            if number % 10 == 0:
                time.sleep(0.001)

        assert not observers.flush(0.05)
        assert observers.dropped > 0
        hosted.begin()
        until(lambda: told(site, EngineStarted)[1:])
        observers.observe(state(2000, 0, at=2000), IterationStats(), {})
        assert observers.flush(PATIENCE_SECONDS)
        observers.close(PATIENCE_SECONDS)
        (lane,) = hosted.observers.lanes
        assert lane.dropped >= observers.dropped


def test_what_cannot_be_sent_is_dropped(
    site: PluginSite, hosted: HostedObserver, caplog: pytest.LogCaptureFixture
) -> None:
    """
    A number of more than 64 bits, or half a character, costs its own notice only.
    """
    with front_end(hosted) as observers:
        observers.started(FACTS, CLOCK)
        observers.observe(state(2**70, 0), IterationStats(), {})
        observers.stopped(0, "\ud800")
        observers.stopped(0, "closed")
        assert observers.flush(PATIENCE_SECONDS)

        assert observers.dropped == 2
    assert len(caplog.records) == 2
    assert [hook for hook, _ in site.calls("there") if "engine" in hook] == [
        "engine_started",
        "engine_stopped",
    ]


def test_strangers_are_not_heard(site: PluginSite, hosted: HostedObserver) -> None:
    """
    Without the key nothing is told to the loggers.
    """
    address = hosted.address(1)
    stranger = ObserverAddress(address.folder, os.urandom(16), 1)
    me = Party(Role.CLIENT, 1)
    transport = IpcTransport(stranger.folder, me)
    transport.connect(OBSERVER, ipc_address(stranger.folder, OBSERVER), max_waiting=9)
    mailbox: Mailbox[object] = Mailbox(
        transport, me, msgspec.msgpack.Decoder(object), lambda _: stranger.key
    )
    with closing(transport), front_end(hosted, 0) as friend:
        mailbox.post(OBSERVER, Join(os.getpid()))
        friend.front_end_changed((TransportStats(dropped=1),))
        assert friend.flush(PATIENCE_SECONDS)

        assert mailbox.receive(0.1) is None
    assert told(site, FrontEndChanged)


def test_offline_metrics_refuse_the_option() -> None:
    """
    An `LLM` that collects metrics says that the option is for servers.
    """
    with pytest.raises(ConfigError, match="observer-process: is for servers"):
        LLM("demo", observer_process=True)
