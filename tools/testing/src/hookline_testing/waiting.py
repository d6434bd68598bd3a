"""Waiting for what another process does."""

import time
from collections.abc import Callable

from hookline_testing.server_process import PATIENCE_SECONDS


def wait_until(holds: Callable[[], bool], complaint: str) -> None:
    """Returns once something holds; fails with the complaint if it never does."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.05)
