"""What an engine's start consisted of, and for how long."""

import pytest

from hookline.clock import NANOSECONDS, VirtualClock
from hookline.config import EngineConfig, ExecutorConfig, ModelConfig
from hookline.engine_setup.building import build_core
from hookline.startup_timer import StartupPhase, StartupTimer
from hookline_testing.oracle import Oracle

EPOCH = 1_700_000_000 * NANOSECONDS


class EpochClock(VirtualClock):
    """A virtual clock whose wall shows another time than its monotonic hands."""

    def wall(self) -> int:
        return EPOCH + self.now()


def test_phases_are_placed_and_ordered_by_their_beginnings() -> None:
    """An outer phase ends last and stands before those inside it."""
    clock = EpochClock()
    timer = StartupTimer(clock)

    clock.sleep(1)
    with timer.phase("all"):
        with timer.phase("first"):
            clock.sleep(2)
        clock.sleep(0.5)
        with timer.phase("second"):
            clock.sleep(4)

    second = NANOSECONDS
    assert timer.phases() == (
        StartupPhase(name="all", started_at=EPOCH + second, seconds=6.5),
        StartupPhase(name="first", started_at=EPOCH + second, seconds=2.0),
        StartupPhase(name="second", started_at=EPOCH + 7 * second // 2, seconds=4.0),
    )


def test_correction_of_the_wall_clock_tears_nothing_apart() -> None:
    """Phases lie where the first reading of the wall clock puts them."""

    class Corrected(EpochClock):
        offset = 0

        def wall(self) -> int:
            return super().wall() + self.offset

    clock = Corrected()
    timer = StartupTimer(clock)
    clock.offset = -3600 * NANOSECONDS

    with timer.phase("late"):
        clock.sleep(1)

    assert timer.phases()[0].started_at == EPOCH


def test_failed_phase_is_not_recorded() -> None:
    """The error propagates, and only completed phases are recorded."""
    timer = StartupTimer(VirtualClock())

    def start() -> None:
        with timer.phase("all"):
            with timer.phase("good"):
                pass
            raise RuntimeError

    with pytest.raises(RuntimeError):
        start()

    assert [phase.name for phase in timer.phases()] == ["good"]


def test_facts_of_a_simulated_engine_name_its_phases(llama: Oracle) -> None:
    """It reads its model's description and loads nothing."""
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        executor=ExecutorConfig(name="simulated"),
    )

    core = build_core(config, EpochClock())

    assert core.facts.startup == (
        StartupPhase(name="start engine", started_at=EPOCH, seconds=0.0),
        StartupPhase(name="read config", started_at=EPOCH, seconds=0.0),
    )
    assert core.facts.model.cost.weight_bytes == 0
