"""When an engine counts as stalled, and when it is only slow or busy."""

from concurrent.futures import Future

import pytest

from hookline.events import StepOutput
from hookline.frontend.engine_vitals import EngineVitals, Stall
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_process_engine.supervision.config import SupervisionConfig
from hookline_process_engine.supervision.engine_watch import (
    STOPPED_SECONDS,
    EngineWatch,
)
from hookline_testing.payloads import RECORD

LIMIT = 20.0
HEARTBEAT = 1.0


class Watched:
    """An engine's signs of life, and looks at them once per second."""

    def __init__(self) -> None:
        self.vitals = EngineVitals()
        config = SupervisionConfig(step_timeout=LIMIT)
        self.watch = EngineWatch(self.vitals, config, HEARTBEAT)

    def hear(self, *, running: int = 0, waiting: int = 0, sleep: int = 0) -> None:
        stats = SchedulerStats(running=running, waiting=waiting, sleep_level=sleep)
        self.vitals.heard(StepOutput(0, 0, "heartbeat", stats))

    def step(self, *, running: int = 1, waiting: int = 0) -> None:
        stats = SchedulerStats(running=running, waiting=waiting)
        self.vitals.heard(StepOutput(0, 0, "step", stats, record=RECORD))

    def look(self, seconds: float, *, stopped: str = "") -> Stall | None:
        """The verdict after so many seconds without anything new."""
        stall = None
        for _ in range(round(seconds)):
            stall = self.watch.look(1.0, stopped=stopped)
        return stall


@pytest.fixture
def watched() -> Watched:
    """An engine that has run its first step."""
    watched = Watched()
    watched.step()
    watched.look(1)
    return watched


def test_a_saturated_engine_is_healthy(watched: Watched) -> None:
    """However long its queue is and its steps take, it works while it steps."""
    for _ in range(10):
        watched.step(running=256, waiting=100_000)
        watched.vitals.unheard.append(0)

        assert watched.look(LIMIT - 1) is None


def test_work_without_a_step_is_a_stall(watched: Watched) -> None:
    """It begins right after the limit, and ends with the next step."""
    before = watched.look(LIMIT)
    after = watched.look(1)
    watched.step()

    assert before is None
    assert after == Stall("it sends nothing and runs no step", LIMIT + 1, is_final=True)
    assert watched.look(1) is None


def test_an_engine_that_answers_may_be_stalled(watched: Watched) -> None:
    """Heartbeats are no steps: requests that wait in vain are noticed."""
    for _ in range(round(LIMIT)):
        watched.hear(waiting=3)
        assert watched.look(1) is None
    watched.hear(waiting=3)

    assert watched.look(1) == Stall(
        "it answers but runs no step", LIMIT + 1, is_final=True
    )


def test_requests_on_their_way_are_work(watched: Watched) -> None:
    """An engine that stopped while idle has not confirmed what it was sent since."""
    watched.hear()
    watched.look(1)
    watched.vitals.unheard.append(0)

    assert watched.look(LIMIT) is None
    assert watched.look(1) is not None


def test_an_idle_engine_sends_heartbeats(watched: Watched) -> None:
    """It runs no steps for as long as it likes, but is not silent."""
    for _ in range(100):
        watched.hear()
        assert watched.look(1) is None

    stall = watched.look(LIMIT + HEARTBEAT + 1)

    assert stall is not None
    assert stall.reason == "it sends nothing"


def test_the_first_step_may_take_longer() -> None:
    """It may compile kernels; nothing is sent meanwhile."""
    watched = Watched()
    watched.hear(waiting=1)
    watched.look(1)

    assert watched.look(10 * LIMIT - 1) is None
    assert watched.look(2) is not None


def test_a_stopped_process_is_noticed_early(watched: Watched) -> None:
    """A step cannot be that long; but requests are given up no sooner."""
    early = watched.look(STOPPED_SECONDS + HEARTBEAT + 1, stopped="its process")
    late = watched.look(LIMIT, stopped="its process")

    assert early is not None
    assert early.reason == "its process is stopped"
    assert not early.is_final
    assert late is not None
    assert late.is_final


def test_a_sleeping_engine_runs_no_steps(watched: Watched) -> None:
    """Requests wait for its wake-up, however long that takes."""
    for _ in range(100):
        watched.hear(waiting=5, sleep=1)
        assert watched.look(1) is None


def test_loading_weights_is_no_stall(watched: Watched) -> None:
    """While a wake-up is open the engine may be silent; afterwards it may not."""
    reply: Future[bool] = Future()
    watched.vitals.begin_slow_call(reply)
    during = watched.look(10 * LIMIT)

    reply.set_result(True)

    assert during is None
    assert watched.look(1) is not None
