"""Limits of processes that work on others' input."""

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hookline_processes import limits
from hookline_processes.limits import small_environment

LOOP = """
from hookline_processes.limits import processor_time

with processor_time(60.0):
    pass
with processor_time(0.1):
    while True:
        pass
"""
HOARD = """
from hookline_processes.limits import limit_memory

limit_memory(64 << 20)
small = bytearray(32 << 20)
try:
    bytearray(128 << 20)
except MemoryError:
    raise SystemExit(7)
"""


def test_only_known_variables_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that Python needs, if they are set."""
    monkeypatch.setenv("HOOKLINE_API_KEY", "secret")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.delenv("TZ", raising=False)

    kept = small_environment()

    assert "secret" not in kept.values()
    assert kept["PYTHONPATH"] == "/somewhere"
    assert "TZ" not in kept


def test_the_kernel_limits_processor_time() -> None:
    """Code that does not return to the interpreter ends, too; other code goes on."""
    ended = subprocess.run([sys.executable, "-c", LOOP], check=False)

    assert ended.returncode == -signal.SIGPROF


@pytest.mark.parametrize(
    ("left", "limit"), [(1 << 30, 1 << 29), (300 << 20, 300 << 20), (0, 256 << 20)]
)
def test_a_container_with_little_memory_lowers_the_limit(
    monkeypatch: pytest.MonkeyPatch, left: int, limit: int
) -> None:
    """Before the kernel kills a process for its input, the input is refused."""
    set_to: list[int] = []
    monkeypatch.setattr(limits, "available_memory", lambda: left)
    monkeypatch.setattr("resource.getrlimit", lambda _: (-1, -1))
    monkeypatch.setattr("resource.setrlimit", lambda _, both: set_to.extend(both))
    pages = int(Path("/proc/self/statm").read_text().split()[0])

    limits.limit_memory(1 << 29)

    now = pages * resource.getpagesize()
    assert [abs(each - now - limit) < 32 << 20 for each in set_to] == [True, True]


def test_memory_beyond_the_limit_is_refused() -> None:
    """What is within it can be used."""
    ended = subprocess.run([sys.executable, "-c", HOARD], check=False)

    assert ended.returncode == 7
