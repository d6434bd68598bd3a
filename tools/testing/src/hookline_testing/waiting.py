"""Waiting for what another process does."""

import time
from collections.abc import Callable
from typing import TypeVar

from hookline_testing.own_time import Deadline

T = TypeVar("T")

PATIENCE_SECONDS = 60.0
"""When waiting is given up; how long it took is nothing that a test asserts."""


def wait_until(holds: Callable[[], object], complaint: str) -> None:
    """Returns once something holds; fails with the complaint if it never does."""
    wait_for_value(holds, bool, complaint)


def wait_for_value(
    read: Callable[[], T], holds: Callable[[T], object], complaint: str
) -> T:
    """Returns a value once it holds; else fails with the complaint and the last one."""
    deadline = Deadline(PATIENCE_SECONDS)
    while not holds(found := read()):
        assert deadline.is_ahead, f"{complaint}: {found}"
        time.sleep(0.05)
    return found
