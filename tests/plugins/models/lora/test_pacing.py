"""What reads adapters leaves the processors to steps."""

from types import SimpleNamespace

import pytest

from hookline_lora import pacing
from hookline_lora.pacing import Pacing


class Times(SimpleNamespace):
    """Clocks that a test sets, and the rests that were taken."""

    now = 100.0
    worked = 0.0

    def __init__(self) -> None:
        super().__init__(rests=[])

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.worked

    def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    made = Times()
    monkeypatch.setattr(pacing, "time", made)
    return made


def test_an_idle_engine_needs_no_rests(times: Times) -> None:
    """Neither before its first step, nor long after one."""
    paced = Pacing()
    rest = paced.rests()
    times.worked = 1.0
    rest()
    paced.stepped()
    times.now += 60

    rest()

    assert times.rests == []


def test_rests_are_nine_times_the_work(times: Times) -> None:
    """That of one piece, and no longer than a tenth of a second."""
    paced = Pacing()
    paced.stepped()
    rest = paced.rests()
    for piece in (0.001, 0.002, 1.0):
        times.worked += piece
        rest()

    assert times.rests == pytest.approx([0.009, 0.018, 0.1])
