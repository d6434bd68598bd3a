"""One plugin's lane: what it delivers, drops and survives."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from hookline_registry import Breaker, Lane, Notice

PATIENCE_SECONDS = 30.0
"""Long enough that only a hang runs into it."""


class ManualClock:
    """A clock that the test advances, and that can fail once."""

    def __init__(self) -> None:
        self.now = 0.0
        self.fails = False

    def __call__(self) -> float:
        if self.fails:
            self.fails = False
            raise SystemExit
        return self.now


class Gate:
    """A plugin's hook that waits until it is let through."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.opened = threading.Semaphore(0)
        self.seen: list[object] = []

    def __call__(self, step: object) -> None:
        self.entered.release()
        assert self.opened.acquire(timeout=PATIENCE_SECONDS)
        self.seen.append(step)

    def open(self, times: int = 1) -> None:
        self.opened.release(times)


Hook = Callable[..., object]
MakeLane = Callable[..., Lane]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_lane(clock: ManualClock) -> Iterator[MakeLane]:
    """Makes lanes and ends them after the test."""
    lanes: list[Lane] = []

    def make(
        bound: int = 64,
        failures: int = 3,
        linger_seconds: float = 0.0,
        **hooks: Hook | list[Hook],
    ) -> Lane:
        callers = {
            hook: value if isinstance(value, list) else [value]
            for hook, value in hooks.items()
        }
        breaker = Breaker(failures=failures, cool_down_seconds=30.0, clock=clock)
        lane = Lane(
            "toy",
            callers,
            bound=bound,
            breaker=breaker,
            linger_seconds=linger_seconds,
            clock=clock,
        )
        lanes.append(lane)
        return lane

    yield make

    for lane in lanes:
        lane.close(PATIENCE_SECONDS)


def steps(*numbers: int) -> Sequence[Notice]:
    return [("step_finished", {"step": number}) for number in numbers]


def noting(seen: list[int]) -> Callable[[int], None]:
    def note(step: int) -> None:
        seen.append(step)

    return note


def lane_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "hookline-lane-toy"]


def test_batches_arrive_in_order(make_lane: MakeLane) -> None:
    """Every hook of every batch is called, in order, in another thread."""
    seen: list[tuple[int, bool]] = []
    main = threading.current_thread()
    lane = make_lane(
        step_finished=lambda step: seen.append(
            (step, threading.current_thread() is main)
        )
    )

    for number in range(0, 20, 2):
        lane.submit(steps(number, number + 1))

    assert lane.flush(PATIENCE_SECONDS)
    assert seen == [(number, False) for number in range(20)]
    assert lane.stats.delivered == 10
    assert lane.stats.dropped == lane.stats.errors == lane.stats.depth == 0


def test_the_thread_starts_with_the_first_batch(make_lane: MakeLane) -> None:
    """A lane without calls starts no thread."""
    lane = make_lane(step_finished=noting([]))
    before = lane_threads()

    lane.submit(steps(1))

    assert before == []
    (thread,) = lane_threads()
    assert thread.daemon


def test_batches_without_a_listener_are_not_queued(make_lane: MakeLane) -> None:
    """A batch without any hook that the plugin implements does not wake it."""
    lane = make_lane(step_finished=noting([]))

    lane.submit([("request_finished", {"request": 1})])

    assert lane.flush(0.0)
    assert lane_threads() == []
    assert lane.stats.delivered == lane.stats.dropped == 0


def test_a_full_lane_drops_its_oldest_batches(make_lane: MakeLane) -> None:
    """Submitting never waits: the newest batches are kept, the others counted."""
    gate = Gate()
    lane = make_lane(bound=2, step_finished=gate)
    lane.submit(steps(0))
    assert gate.entered.acquire(timeout=PATIENCE_SECONDS)

    for number in range(1, 6):
        lane.submit(steps(number))

    assert lane.stats.depth == 2
    assert lane.stats.dropped == 3
    gate.open(3)
    assert lane.flush(PATIENCE_SECONDS)
    assert gate.seen == [0, 4, 5]
    assert lane.stats.delivered == 3


def test_flush_is_a_barrier_though_batches_are_dropped(make_lane: MakeLane) -> None:
    """Drops behind a batch in hand do not let a flush through too early."""
    gate = Gate()
    lane = make_lane(bound=1, step_finished=gate)
    lane.submit(steps(0))
    assert gate.entered.acquire(timeout=PATIENCE_SECONDS)
    for number in range(1, 10):
        lane.submit(steps(number))

    early = lane.flush(0.0)
    gate.open(2)
    late = lane.flush(PATIENCE_SECONDS)

    assert not early
    assert late
    assert gate.seen == [0, 9]


def test_flush_waits_for_no_later_batches(make_lane: MakeLane) -> None:
    """A flush returns once the batches before it are settled, though more arrive."""
    enough = threading.Event()

    def tell_again(step: int) -> None:
        if not enough.is_set():
            lane.submit(steps(step + 1))

    lane = make_lane(step_finished=tell_again)
    lane.submit(steps(0))

    is_flushed = lane.flush(PATIENCE_SECONDS)
    enough.set()

    assert is_flushed


def test_an_error_stops_no_other_hook_of_the_batch(make_lane: MakeLane) -> None:
    """All hooks of a batch are called, whatever the ones before them raised."""
    seen: list[int] = []

    def odd_only(step: int) -> None:
        if step % 2 == 0:
            raise ValueError(step)
        seen.append(step)

    lane = make_lane(step_finished=[odd_only, lambda step: seen.append(-step)])

    lane.submit(steps(1, 2, 3))

    assert lane.flush(PATIENCE_SECONDS)
    assert seen == [1, -1, -2, 3, -3]
    assert lane.stats.errors == 1
    assert lane.stats.last_error == "step_finished: ValueError: 2"
    assert lane.stats.delivered == 1


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_an_exit_does_not_end_the_lane(
    make_lane: MakeLane, error: BaseException
) -> None:
    """A plugin that tries to exit is an error like any other."""
    seen: list[int] = []

    def exit_first(step: int) -> None:
        if step == 0:
            raise error
        seen.append(step)

    lane = make_lane(step_finished=exit_first)

    lane.submit(steps(0))
    lane.submit(steps(1))

    assert lane.flush(PATIENCE_SECONDS)
    assert seen == [1]
    assert lane.stats.errors == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_died_is_replaced(
    make_lane: MakeLane, clock: ManualClock
) -> None:
    """Should the lane's own thread end, the next batch starts another one."""
    seen: list[int] = []
    lane = make_lane(step_finished=noting(seen))
    clock.fails = True
    lane.submit(steps(0))
    for thread in lane_threads():
        thread.join(PATIENCE_SECONDS)
    assert lane_threads() == []

    lane.submit(steps(1))

    assert lane.flush(PATIENCE_SECONDS)
    assert seen == [0, 1]


def test_repeated_errors_are_logged_once(
    make_lane: MakeLane, caplog: pytest.LogCaptureFixture
) -> None:
    """The first of its kind is logged with plugin and traceback, the rest counted."""

    def fail(step: int) -> None:
        if step == 7:
            raise KeyError(step)
        raise ValueError(step)

    lane = make_lane(failures=100, step_finished=fail)

    with caplog.at_level(logging.ERROR):
        lane.submit(steps(*range(10)))
        assert lane.flush(PATIENCE_SECONDS)

    kinds = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert kinds == [ValueError, KeyError]
    assert all("plugin toy: step_finished: " in text for text in caplog.messages)
    assert "in fail" in caplog.text
    assert lane.stats.errors == 10
    assert lane.stats.last_error == "step_finished: ValueError: 9"


def test_an_open_breaker_drops_and_one_batch_tries_again(
    make_lane: MakeLane, clock: ManualClock
) -> None:
    """A plugin that keeps failing is left alone for a while, and can recover."""
    seen: list[int] = []

    def fail_at_first(step: int) -> None:
        if step < 3:
            raise ValueError(step)
        seen.append(step)

    lane = make_lane(step_finished=fail_at_first)
    for number in range(5):
        lane.submit(steps(number))
    assert lane.flush(PATIENCE_SECONDS)
    opened = lane.stats

    clock.now = 30.0
    lane.submit(steps(5))
    lane.submit(steps(6))

    assert lane.flush(PATIENCE_SECONDS)
    assert (opened.breaker, opened.delivered, opened.dropped) == ("open", 3, 2)
    assert seen == [5, 6]
    assert lane.stats.breaker == "closed"
    assert lane.stats.errors == 3


def test_time_in_the_plugin_is_measured(
    make_lane: MakeLane, clock: ManualClock
) -> None:
    """Busy seconds count finished calls and the one that is still going on."""
    gate = Gate()
    lane = make_lane(step_finished=gate)
    lane.submit(steps(0))
    assert gate.entered.acquire(timeout=PATIENCE_SECONDS)

    clock.now = 4.0
    during = lane.stats.busy_seconds
    gate.open()
    assert lane.flush(PATIENCE_SECONDS)
    clock.now = 9.0

    assert during == 4.0
    assert lane.stats.busy_seconds == 4.0


def test_close_delivers_queued_batches_and_ends_the_thread(make_lane: MakeLane) -> None:
    """Earlier calls are delivered, later ones refused."""
    seen: list[int] = []
    lane = make_lane(step_finished=noting(seen))
    for number in range(10):
        lane.submit(steps(number))

    results = [lane.close(PATIENCE_SECONDS), lane.close(PATIENCE_SECONDS)]
    lane.submit(steps(10))

    assert results == [True, True]
    assert seen == list(range(10))
    assert lane_threads() == []
    assert lane.stats.dropped == 1


def test_close_abandons_a_plugin_that_hangs(make_lane: MakeLane) -> None:
    """A hanging plugin holds up no shutdown; what waits behind it is dropped."""
    gate = Gate()
    lane = make_lane(step_finished=gate)
    for number in range(3):
        lane.submit(steps(number))
    assert gate.entered.acquire(timeout=PATIENCE_SECONDS)

    is_closed = lane.close(0.0)

    assert not is_closed
    assert lane.stats.dropped == 2
    gate.open()
    for thread in lane_threads():
        thread.join(PATIENCE_SECONDS)
    assert lane_threads() == []
    assert gate.seen == [0]


def test_a_lingering_lane_is_not_kept_waiting_for(make_lane: MakeLane) -> None:
    """Gathered batches are delivered by a flush or by closing the lane."""
    seen: list[int] = []
    lane = make_lane(linger_seconds=3600.0, step_finished=noting(seen))

    for number in range(3):
        lane.submit(steps(number))
        assert lane.flush(PATIENCE_SECONDS)
    lane.submit(steps(3))

    assert lane.close(PATIENCE_SECONDS)
    assert seen == [0, 1, 2, 3]


def test_a_lingering_lane_delivers_before_it_is_full(make_lane: MakeLane) -> None:
    """A lane that fills up while it lingers loses nothing."""
    seen: list[int] = []
    half = threading.Event()

    def note(step: int) -> None:
        seen.append(step)
        if step == 4:
            half.set()

    lane = make_lane(bound=8, linger_seconds=3600.0, step_finished=note)
    lane.submit(steps(0))
    assert lane.flush(PATIENCE_SECONDS)

    for number in range(1, 5):
        lane.submit(steps(number))

    assert half.wait(PATIENCE_SECONDS)
    assert lane.stats.dropped == 0


def test_a_lane_lingers_only_after_a_delivery(make_lane: MakeLane) -> None:
    """What comes to a lane at rest is delivered at once."""
    was_called = threading.Event()
    lane = make_lane(linger_seconds=3600.0, step_finished=lambda step: was_called.set())  # noqa: ARG005

    lane.submit(steps(1))

    assert was_called.wait(PATIENCE_SECONDS)
