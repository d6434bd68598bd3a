"""The host's time a step."""

import time
from argparse import Namespace

import host_time
import pytest

from hookline_testing.oracle import Oracle


def test_time_of_a_part_within_another_is_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sum of the parts is the time of the outermost."""
    times = iter([0, 10, 17, 30])
    monkeypatch.setattr(time, "thread_time_ns", lambda: next(times))
    parts = host_time.Parts()
    inner = parts.timed("schedule", lambda: 5)
    outer = parts.timed("emit", lambda: inner() + 1)

    assert outer() == 6
    spent = parts.take()

    assert (spent["schedule"], spent["emit"]) == (7, 23)
    assert set(parts.take().values()) == {0}


def test_decoding_steps_are_measured(llama: Oracle) -> None:
    """Each part of each counted step takes time."""
    options = Namespace(steps=4, prompt_tokens=8)

    steps = host_time.measure(llama.folder, 2, options)
    row = host_time.summary(2, steps)

    assert len(steps) == 4
    assert all(min(step.values()) > 0 for step in steps)
    assert (row["running"], row["steps"]) == (2, 4)
