"""What the log says of an engine's limit, and when."""

import pytest

from hookline.clock import NANOSECONDS
from hookline.events import StepRecord
from hookline.payloads import StepFinished
from hookline.stats.iteration_stats import IterationStats
from hookline.stats.scheduler_stats import SchedulerStats
from hookline.stats.step_work import Obstacle, StepWork
from hookline_insight.bound_watch import BoundWatch

BUSY = SchedulerStats(running=8, waiting=3, kv_blocks=100, kv_blocks_used=99)
IDLE = SchedulerStats(kv_blocks=100)
READS = "none waited, and most of the steps' time went to what each of them reads"


class Engine:
    """An engine whose steps take 10 ms, one after another."""

    def __init__(self) -> None:
        self.watch, self.now, self.number = BoundWatch(), NANOSECONDS, 0

    def run(
        self,
        steps: int,
        work: StepWork,
        scheduler: SchedulerStats = BUSY,
        pause: float = 0.0,
    ) -> list[str]:
        """What the log says of them."""
        said = []
        for _ in range(steps):
            begin = self.now + round(pause * NANOSECONDS)
            self.now, self.number = begin + NANOSECONDS // 100, self.number + 1
            record = StepRecord(
                self.number, 0, begin, begin, self.now, self.now, [], work
            )
            step = StepFinished(
                engine_index=0,
                record=record,
                iteration=IterationStats(),
                scheduler=scheduler,
            )
            said.append(self.watch.step(step))
        return [each for each in said if each]


def held(obstacle: Obstacle) -> StepWork:
    return StepWork(decode_requests=8, decode_tokens=8, obstacle=obstacle)


@pytest.mark.parametrize(
    ("work", "limit", "evidence"),
    [
        (
            held(Obstacle.KV_BLOCKS),
            "KV space",
            "3 requests wait, and 99 of 100 KV blocks are taken",
        ),
        (
            held(Obstacle.BATCH_SLOTS),
            "batch slots",
            "3 requests wait, and 8 run, which is all that may",
        ),
        (
            held(Obstacle.TOKEN_BUDGET),
            "the token budget of a step",
            "3 requests wait, and the last step had 8 tokens",
        ),
        (
            held(Obstacle.NONE),
            "memory bandwidth",
            f"{READS}: 10.0 ms a step and 0 µs a request",
        ),
    ],
)
def test_the_limit_is_told_with_its_evidence(
    work: StepWork, limit: str, evidence: str
) -> None:
    """Once, after 64 steps."""
    engine, said = Engine(), f"{limit} for 100 % of the last seconds: {evidence}"

    assert engine.run(63, work) == []
    assert engine.run(1, work) == [said]
    assert engine.run(640, work) == []


def test_another_limit_is_told_once_it_lasts() -> None:
    """A minute after the line before it, at the earliest."""
    engine = Engine()
    assert len(engine.run(64, held(Obstacle.KV_BLOCKS))) == 1

    assert engine.run(5000, held(Obstacle.BATCH_SLOTS)) == []
    (said,) = engine.run(1100, held(Obstacle.BATCH_SLOTS))

    assert said.startswith("batch slots for 100 %")


def test_an_engine_that_rests_most_of_the_time_is_bound_by_its_clients() -> None:
    """Only the time in which it had no request counts as theirs."""
    resting, waiting = Engine(), Engine()
    work = held(Obstacle.NONE)

    (said,) = resting.run(64, work, IDLE, pause=0.09)
    (other,) = waiting.run(64, work, BUSY, pause=0.09)

    assert said.startswith(
        "its clients for 90 % of the last seconds: it had no request"
    )
    assert other.startswith("memory bandwidth for 100 %")
