"""Before a page is made in the observer process, all front ends tell what they know."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from hookline.config import EngineConfig, ObserverConfig
from hookline.payloads import RecordsLogged
from hookline_observer.asked_front_ends import AskedFrontEnds
from hookline_observer.messages import Tell, Told
from hookline_observer.remote_observers import RemoteObservers
from hookline_testing import PluginSite
from hookline_testing.hosted_observer import HostedObserver

PATIENCE_SECONDS = 30.0


def config() -> EngineConfig:
    """Of front ends that send nothing by themselves for a second."""
    observers = ObserverConfig(stat_loggers=("there",), linger_seconds=1.0)
    return EngineConfig(observers=observers)


@pytest.fixture
def hosted(site: PluginSite) -> Iterator[HostedObserver]:
    del site  # it need only be there
    with HostedObserver(config()) as hosted:
        yield hosted


@contextmanager
def front_end(hosted: HostedObserver, index: int) -> Iterator[RemoteObservers]:
    observers = RemoteObservers(config(), hosted.address(index))
    try:
        yield observers
    finally:
        observers.close(PATIENCE_SECONDS)


def log(observers: RemoteObservers, number: int) -> None:
    observers.records_logged(RecordsLogged(records=(), missed=number))


def told(site: PluginSite) -> list[int]:
    return [
        each.missed
        for _, each in site.calls("there")
        if isinstance(each, RecordsLogged)
    ]


def test_loggers_have_all_that_front_ends_know(
    site: PluginSite, hosted: HostedObserver
) -> None:
    """
    What one has put into its outbox, and what another tells when it is asked, again and
    again; one that fails to tell is behind.
    """
    with front_end(hosted, 0) as one, front_end(hosted, 1) as other:
        tell = hosted.observers.tell_first
        assert tell is not None
        for each in (one, other):  # whom the process has not heard, it does not ask
            assert each.flush(PATIENCE_SECONDS)

        def tell_more(_: float) -> float:
            log(other, -len(told(site)))
            return 0.5

        other.add_routes(lambda _: pytest.fail("no page is here"), tell_more)
        for number in range(1, 11):
            log(one, number)

            assert tell(PATIENCE_SECONDS) == 0.5
            assert hosted.observers.flush(PATIENCE_SECONDS)

            assert len(told(site)) == 2 * number
            assert number in told(site)
        other.add_routes(lambda _: pytest.fail("no page is here"), lambda _: 1 / 0)
        assert tell(PATIENCE_SECONDS) == PATIENCE_SECONDS


def answering(
    asked: list[AskedFrontEnds], silent: set[int]
) -> Callable[[int, Tell], bool]:
    def post(index: int, tell: Tell) -> bool:
        if index not in silent:
            asked[0].told(index, Told(tell.number, 0.0))
        return True

    return post


def test_a_silent_front_end_is_not_waited_for() -> None:
    """
    The others' news are there, and the time since it was heard says how far behind it
    may be; whoever has left, even meanwhile, has nothing to tell.
    """
    silent: set[int] = set()
    made: list[AskedFrontEnds] = []
    asked = AskedFrontEnds(answering(made, silent))
    made.append(asked)
    assert asked.ask(0.0) == 0
    asked.heard(0)
    asked.heard(1)
    assert asked.ask(PATIENCE_SECONDS) == 0

    silent.add(1)
    assert asked.ask(0.0) > 0
    leaving = threading.Timer(0.01, asked.left, [1])
    leaving.start()
    assert asked.ask(PATIENCE_SECONDS) == 0
    assert asked.ask(PATIENCE_SECONDS) == 0


def test_a_question_without_room_is_sent_again() -> None:
    """It does not count as asked until it is sent."""
    tries: list[int] = []

    def post(index: int, tell: Tell) -> bool:
        tries.append(index)
        if len(tries) > 2:
            asked.told(index, Told(tell.number, 0.25))
        return len(tries) > 2

    asked = AskedFrontEnds(post)
    asked.heard(3)

    assert asked.ask(PATIENCE_SECONDS) == 0.25
    assert tries == [3, 3, 3]
