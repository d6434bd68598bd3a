"""A process that only sleeps: for as long as it oversleeps, the machine stalls.

`python oversleeper.py DESCRIPTOR` writes to shared memory, until its owner ends: the
seconds that it has overslept so far, and when it last woke up. It imports little, so
that it runs at once.
"""

import mmap
import os
import struct
import sys
import time

SLEEP_SECONDS = 0.01
TOLERATED_SECONDS = 0.005
"""Timers are no more exact than this on a machine that has nothing else to do."""
RECORD = struct.Struct("=dd")


def main(descriptor: int) -> None:
    """Sleeps and measures."""
    owner, overslept = os.getppid(), 0.0
    with mmap.mmap(descriptor, RECORD.size) as memory:
        before = time.monotonic()
        while os.getppid() == owner:
            RECORD.pack_into(memory, 0, overslept, before)
            time.sleep(SLEEP_SECONDS)
            now = time.monotonic()
            late = now - before - SLEEP_SECONDS
            overslept += late if late > TOLERATED_SECONDS else 0.0
            before = now


if __name__ == "__main__":
    main(int(sys.argv[1]))
