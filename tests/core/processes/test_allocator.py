"""Tests each setting of the C allocator in a process of its own."""

import subprocess
import sys

PROGRAM = """
import sys, threading
from pathlib import Path
from hookline_kernels.runtime import allocator

def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) / 256

def allocate():
    for _ in range(3):
        blocks = [b"x" * 8_000_000, b"y" * 8_000_000]
        del blocks

getattr(allocator, sys.argv[1])()
before = resident_mb()
finished, gone = threading.Event(), threading.Event()

def live_on():
    allocate()
    finished.set()
    gone.wait()

thread = threading.Thread(target=live_on)
thread.start()
finished.wait()
growth = resident_mb() - before
print(growth, allocator.return_freed_memory())
gone.set()
"""


def kept(setting: str) -> tuple[float, bool]:
    """Measures what a thread keeps after it has freed blocks of 8 MB.

    Returns:
        The memory in MiB, and whether glibc can return any of it.
    """
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, setting],
        capture_output=True,
        text=True,
        check=True,
    )
    growth_mb, can_be_returned = done.stdout.split()
    return float(growth_mb), can_be_returned == "True"


def test_large_blocks_are_returned() -> None:
    """They are outside the arena of the thread."""
    growth_mb, _ = kept("return_large_blocks")

    assert growth_mb < 4


def test_freed_memory_is_kept_until_it_is_returned() -> None:
    """The next blocks of the thread need no new pages."""
    growth_mb, can_be_returned = kept("keep_freed_memory")

    assert growth_mb > 8
    assert can_be_returned
