"""Fan-out of calls to every plugin, each in its own lane."""

import threading
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType

import pluggy
import pytest

from hookline_registry import Fanout, Notice, PluginRegistry

PATIENCE_SECONDS = 30.0
"""Long enough that only a hang runs into it."""

hookimpl = pluggy.HookimplMarker("toy")


class Listener:
    """A plugin that remembers every step."""

    def __init__(self) -> None:
        self.seen: list[object] = []
        self.heard = threading.Semaphore(0)

    @hookimpl
    def step_finished(self, step: object) -> None:
        self.seen.append(step)
        self.heard.release()


class Failing:
    """A plugin that raises in every call."""

    @hookimpl
    def step_finished(self) -> None:
        raise ValueError

    @hookimpl
    def request_finished(self) -> None:
        raise SystemExit


class Hanging:
    """A plugin that does not return until it is released."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.released = threading.Event()

    @hookimpl
    def step_finished(self) -> None:
        self.entered.set()
        self.released.wait()


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    plugin = Hanging()
    yield plugin
    plugin.released.set()


@pytest.fixture
def make_fanout(specs: ModuleType) -> Iterator[Callable[..., Fanout]]:
    """Makes a fanout of lanes, each given as a list of plugins."""
    made: list[Fanout] = []

    def make(bound: int = 64, **lanes: Sequence[object]) -> Fanout:
        registry = PluginRegistry("toy", specs)
        names: dict[str, list[str]] = {}
        for lane, plugins in lanes.items():
            names[lane] = [f"{lane}.{index}" for index in range(len(plugins))]
            for name, plugin in zip(names[lane], plugins, strict=True):
                registry.register(plugin, name)
        fanout = Fanout(registry, names, bound=bound, failures=3, cool_down_seconds=1e9)
        made.append(fanout)
        return fanout

    yield make

    for fanout in made:
        fanout.close(0.5)


def step(number: int) -> list[Notice]:
    return [("step_finished", {"step": number})]


def test_implemented_hooks_are_known(
    make_fanout: Callable[..., Fanout],
) -> None:
    """A hook without an implementation need not be called."""
    fanout = make_fanout(one=[Listener()])

    answers = [fanout.listens(hook) for hook in ("step_finished", "request_finished")]

    assert answers == [True, False]


def test_without_plugins_nothing_happens(make_fanout: Callable[..., Fanout]) -> None:
    """No lane means no state and no waiting."""
    fanout = make_fanout()

    fanout.submit(step(1))

    assert not fanout.listens("step_finished")
    assert fanout.flush(0.0)
    assert fanout.close(0.0)
    assert fanout.stats == ()


def test_every_plugin_gets_every_call(make_fanout: Callable[..., Fanout]) -> None:
    """All lanes, and all plugins of a lane, get each batch in order."""
    first, second, third = Listener(), Listener(), Listener()
    fanout = make_fanout(one=[first, second], two=[third])

    for number in range(20):
        fanout.submit(step(number))

    assert fanout.flush(PATIENCE_SECONDS)
    assert first.seen == second.seen == third.seen == list(range(20))
    assert [stats.name for stats in fanout.stats] == ["one", "two"]
    assert [stats.delivered for stats in fanout.stats] == [20, 20]


def test_a_failing_plugin_does_not_affect_others(
    make_fanout: Callable[..., Fanout],
) -> None:
    """Errors and exits open the one lane's breaker and leave the other whole."""
    listener = Listener()
    fanout = make_fanout(bad=[Failing()], good=[listener])

    for number in range(20):
        fanout.submit([*step(number), ("request_finished", {"request": number})])

    assert fanout.flush(PATIENCE_SECONDS)
    bad, good = fanout.stats
    assert (bad.breaker, bad.delivered, bad.dropped, bad.errors) == ("open", 2, 18, 4)
    assert (good.breaker, good.delivered, good.dropped) == ("closed", 20, 0)
    assert listener.seen == list(range(20))


def test_a_failing_plugin_spares_its_lane_mates(
    make_fanout: Callable[..., Fanout],
) -> None:
    """In one lane an error of one plugin does not keep the call from the next."""
    listener = Listener()
    fanout = make_fanout(mixed=[Failing(), listener])

    fanout.submit(step(1))

    assert fanout.flush(PATIENCE_SECONDS)
    assert listener.seen == [1]


def test_a_hanging_plugin_does_not_affect_others(
    make_fanout: Callable[..., Fanout], hanging: Hanging
) -> None:
    """A plugin that never returns loses only its own batches."""
    listener = Listener()
    fanout = make_fanout(bound=4, stuck=[hanging], good=[listener])

    for number in range(20):
        fanout.submit(step(number))
        assert hanging.entered.wait(PATIENCE_SECONDS)
        assert listener.heard.acquire(timeout=PATIENCE_SECONDS)

    assert not fanout.flush(0.1)
    stuck, good = fanout.stats
    assert (stuck.delivered, stuck.depth, stuck.dropped) == (0, 4, 15)
    assert (good.breaker, good.dropped) == ("closed", 0)
    assert listener.seen == list(range(20))


def test_close_delivers_to_the_healthy_and_abandons_the_hanging(
    make_fanout: Callable[..., Fanout], hanging: Hanging
) -> None:
    """Shutdown takes no longer than its timeout, and the healthy lose nothing."""
    listener = Listener()
    fanout = make_fanout(good=[listener], stuck=[hanging])
    for number in range(5):
        fanout.submit(step(number))

    results = [fanout.close(1.0), fanout.close(0.0)]

    assert results == [False, False]
    assert listener.seen == list(range(5))


def test_calls_after_close_are_counted(
    make_fanout: Callable[..., Fanout],
) -> None:
    """A late batch is dropped without an error."""
    listener = Listener()
    fanout = make_fanout(one=[listener])
    fanout.submit(step(1))
    fanout.close(PATIENCE_SECONDS)

    fanout.submit(step(2))

    assert listener.seen == [1]
    assert fanout.stats[0].dropped == 1


def test_one_lane_is_settled_whatever_becomes_of_others(
    make_fanout: Callable[..., Fanout], hanging: Hanging
) -> None:
    """A lane's plugin gets all at once, and a hung one tells how long it is behind."""
    listener = Listener()
    fanout = make_fanout(hung=[hanging], one=[listener])
    fanout.submit(step(1))
    assert hanging.entered.wait(PATIENCE_SECONDS)

    behind = fanout.settle("one", PATIENCE_SECONDS), fanout.settle("hung", 0.0)

    assert listener.seen == [1]
    assert behind[0] == 0 < behind[1]
    waited = {lane.name: lane.waited_seconds for lane in fanout.stats}
    assert waited["one"] == 0 < behind[1] <= waited["hung"]
