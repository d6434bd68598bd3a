"""What a run says at its end."""

import os
import re
import time
from collections.abc import Iterable, Sequence

from hookline_testing.ci.second_runs import Twice

_CLOSING = re.compile(r"^=+ .*(?:passed|failed|error|no tests ran).* =+$", re.MULTILINE)
_SKIPPED = re.compile(r"^SKIPPED .*$", re.MULTILINE)
_LINES_SHOWN = 60
"""Of each output of a test; the end says most."""


class ProcessorUse:
    """How much of the machine's processors commands use, from now on.

    Time of processes that outlive whoever has started them is not counted.
    """

    def __init__(self) -> None:
        self._before = os.times()
        self._began = time.monotonic()

    def __str__(self) -> str:
        """Says it in one line."""
        now, before = os.times(), self._before
        used = now.children_user + now.children_system
        used -= before.children_user + before.children_system
        passed = time.monotonic() - self._began
        count = len(os.sched_getaffinity(0))
        return f"{used:.0f} s of {count} processors in {passed:.0f} s"


def skipped_tests(outputs: Iterable[str]) -> list[str]:
    """Returns pytest's lines about the tests that it skipped."""
    return [line for output in outputs for line in _SKIPPED.findall(output)]


def closing_line(output: str) -> str | None:
    """Returns the last line of pytest's that counts the tests; None without any."""
    found = _CLOSING.findall(output)
    return found[-1] if found else None


def describe(tests: Sequence[Twice]) -> str:
    """Returns the tests that failed, with both outputs."""
    return "\n".join(map(_described, tests))


def _described(test: Twice) -> str:
    alone = "it was not run again" if test.alone is None else _end(test.alone.output)
    return (
        f"\n{test.failure.nodeid}\n"
        f"--- among the others:\n{_end(test.failure.evidence)}\n"
        f"--- alone:\n{alone}"
    )


def _end(text: str) -> str:
    lines = text.rstrip().splitlines()
    left_out = [f"({len(lines) - _LINES_SHOWN} lines before)"]
    return "\n".join(
        lines if len(lines) <= _LINES_SHOWN else left_out + lines[-_LINES_SHOWN:]
    )
