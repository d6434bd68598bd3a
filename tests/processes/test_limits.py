"""Limits of processes that work on others' input."""

import signal
import subprocess
import sys

import pytest

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


def test_memory_beyond_the_limit_is_refused() -> None:
    """What is within it can be used."""
    ended = subprocess.run([sys.executable, "-c", HOARD], check=False)

    assert ended.returncode == 7
