"""A plugin of pytest that says how long its processes had nothing to do at the end.

That is what one of the last tests takes longer than all others: it ought to be among
the first.
"""

import time
from typing import Any

import pytest


class IdleTimes:
    """Remembers when each process had its last test, and which that was."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, str]] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Implements pytest's hook; pytest-xdist tells which process has reported."""
        if (worker := getattr(report, "worker_id", None)) is not None:
            self._last[worker] = time.monotonic(), report.nodeid

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        """Implements pytest's hook."""
        end = max((at for at, _ in self._last.values()), default=0.0)
        for worker, (at, nodeid) in sorted(self._last.items()):
            terminalreporter.write_line(
                f"{worker} idle {end - at:.0f} s after {nodeid}"
            )


def pytest_configure(config: pytest.Config) -> None:
    """Implements pytest's hook; only the first of several processes hears of all."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(IdleTimes())
