"""Settings of the C allocator, each in a process of its own."""

import subprocess
import sys

PROGRAM = """
import sys, threading
from pathlib import Path
from hookline.worker import allocator

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
print(resident_mb() - before)
gone.set()
"""


def growth_mb(setting: str) -> float:
    """The memory that a thread keeps after it has freed blocks of 8 MB."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, setting],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def test_large_blocks_are_returned() -> None:
    """They are outside the arena of the thread."""
    assert growth_mb("return_large_blocks") < 4


def test_freed_memory_is_kept() -> None:
    """The next blocks of the thread need no new pages."""
    assert growth_mb("keep_freed_memory") > 8
