"""A hook without listeners costs nothing: its payload is neither built nor frozen."""

import inspect
from collections import Counter
from collections.abc import Callable
from types import FunctionType, SimpleNamespace

import pytest

from hookline import EngineConfig, hookimpl, hookspecs
from hookline.config import ObserverConfig
from hookline.events import (
    BlocksStored,
    CacheChanges,
    ClockPair,
    Finished,
    NewTokens,
    Preempted,
    Queued,
    Scheduled,
    StepEvents,
    StepOutput,
)
from hookline.finish_cause import LengthReached
from hookline.frontend import freezing, observation
from hookline.frontend.observation import Observers
from hookline.frozen import EMPTY
from hookline.payloads import EngineFailed, HttpAnswered, RecordsLogged
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import EngineTotals, SchedulerStats
from hookline_metrics.front_end_parts import LogStats
from hookline_testing import PluginSite
from hookline_testing.hook_types import types_of
from hookline_testing.payloads import FACTS, RECORD


def argument(spec: FunctionType) -> inspect.Parameter:
    """The argument of a hook, with its type."""
    (name,) = inspect.signature(spec).parameters
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, annotation=types_of(spec)[name])


HOOKS = {
    name: argument(spec)
    for name, spec in vars(hookspecs).items()
    if isinstance(spec, FunctionType)
    and hasattr(spec, "hookline_spec")
    and types_of(spec)["return"] is None
    and not name.startswith("add_")
}
"""Each hook that tells of what happens, with its argument."""
BUILT_BY_CALLERS = {EngineFailed, HttpAnswered, RecordsLogged}
"""The server asks first whether anybody listens; an engine's end is rare."""
FREEZES = {
    "step_finished": {"freeze_record", "freeze_stats"},
    "state_changed": {"freeze_stats"},
    "tokens_generated": {"freeze_tokens"},
    "requests_finished": {"frozen_finished"},
    "cache_changed": {"freeze_changes"},
}
"""What is frozen for a hook."""
LOGGER = """
from hookline import hookimpl

heard = []


@hookimpl
def {hook}({argument}):
    heard.append({argument})
"""


def output(*, is_step: bool) -> StepOutput:
    return StepOutput(
        0,
        5,
        "step" if is_step else "heartbeat",
        SchedulerStats(totals=EngineTotals(finished={"length": 1})),
        RECORD if is_step else None,
        events=StepEvents(
            queued=[Queued(1, 0, 3)],
            scheduled=[Scheduled(1, 0, 0, 0, 0, is_resumed=False)],
            preempted=[Preempted(1, 0, 3)],
            new_tokens=[NewTokens(1, 0, [7])],
            finished=[Finished(1, 0, LengthReached(), 1)],
            cache_changes=CacheChanges(1, [BlocksStored([b"x"], None, [1])]),
        ),
    )


def tell_all(observers: Observers) -> None:
    """Tells of everything that there is, once or twice."""
    observers.started(FACTS, ClockPair(wall=0, monotonic=0))
    observers.observe(output(is_step=True), IterationStats(), {})
    observers.observe(output(is_step=False), IterationStats(), {})
    observers.front_end_changed((LogStats(unread=1),))
    observers.http_answered(HttpAnswered(exchanges=(), in_flight=EMPTY))
    observers.records_logged(RecordsLogged(records=(), missed=0))
    observers.failed(EngineFailed(engine_index=0, reason="it ended", open_requests=0))
    observers.stopped(0, "closed")


def counted(call: Callable[..., object], counts: Counter[object]) -> object:
    def count(*arguments: object, **keywords: object) -> object:
        counts[call] += 1
        return call(*arguments, **keywords)

    return count


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[object]:
    """How many payloads of each kind are built, and how often each kind is frozen."""
    found: Counter[object] = Counter()
    kinds = {each.annotation for each in HOOKS.values()} - BUILT_BY_CALLERS
    freezes = {name for names in FREEZES.values() for name in names}
    for name in {kind.__name__ for kind in kinds} | freezes:
        original = getattr(observation, name)
        monkeypatch.setattr(observation, name, counted(original, found))
    return found


def expected(hook: str) -> set[object]:
    built = {HOOKS[hook].annotation} - BUILT_BY_CALLERS
    return built | {getattr(freezing, name) for name in FREEZES.get(hook, ())}


@pytest.mark.parametrize("hook", HOOKS)
def test_only_what_a_logger_implements_is_built(
    hook: str, site: PluginSite, counts: Counter[object]
) -> None:
    """A logger of one hook has no payload built but its own, and gets that."""
    site.install("one", LOGGER.format(hook=hook, argument=HOOKS[hook].name))
    config = EngineConfig(observers=ObserverConfig(stat_loggers=("one",)))
    observers = Observers(config)

    tell_all(observers)

    assert observers.flush(30)
    assert set(counts) == expected(hook)
    assert {type(each) for each in site.module("one").heard} == {HOOKS[hook].annotation}
    observers.close(30)


@pytest.mark.parametrize("hook", HOOKS)
def test_only_what_the_recorder_implements_is_built(
    hook: str, counts: Counter[object]
) -> None:
    """The recorder listens to the hooks that it has methods for, whatever they are."""
    heard: list[object] = []

    @hookimpl
    def hear(**arguments: object) -> None:
        heard.extend(arguments.values())

    config = EngineConfig(observers=ObserverConfig(stat_loggers=()))
    observers = Observers(config, SimpleNamespace(**{hook: hear}))

    tell_all(observers)

    assert observers.listens(hook)
    assert set(counts) == expected(hook)
    assert {type(each) for each in heard} == {HOOKS[hook].annotation}


def test_nothing_is_built_for_nobody(counts: Counter[object]) -> None:
    """Without loggers and without a recorder no payload exists."""
    observers = Observers(EngineConfig(observers=ObserverConfig(stat_loggers=())))

    tell_all(observers)

    assert not observers.is_listening
    assert not counts
