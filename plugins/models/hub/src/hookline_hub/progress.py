"""Says how far a download is: in the terminal all the time, in the log at times."""

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hookline_hub.errors import size_text

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
_LOOKS = 10
"""Over which the speed is the mean."""
_LOG_SECONDS = 10.0
_CLEAR = "\r\033[K"


@contextmanager
def shown(name: str, total: int, received: Callable[[], int]) -> Iterator[None]:
    """Shows progress while the block runs.

    Args:
        name: What is downloaded.
        total: Its bytes.
        received: Returns those that are there.
    """
    done = threading.Event()
    thread = threading.Thread(
        target=_watch,
        args=(name, total, received, done),
        name="hookline-hub-progress",
        daemon=True,
    )
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def line(name: str, total: int, now: int, per_second: float) -> str:
    """Returns one line of progress."""
    share = 100 * now // max(total, 1)
    return (
        f"downloading {name}: {size_text(now)} of {size_text(total)} ({share} %), "
        f"{size_text(int(per_second))}/s"
    )


def _watch(
    name: str, total: int, received: Callable[[], int], done: threading.Event
) -> None:
    logged = time.monotonic()
    seen = deque([(logged, received())], _LOOKS)
    has_terminal = sys.stderr.isatty()
    while not done.wait(_LOOK_SECONDS):
        (then, before), now, here = seen[0], time.monotonic(), received()
        seen.append((now, here))
        text = line(name, total, here, max(here - before, 0) / (now - then))
        if has_terminal:
            _draw(f"\r{text}\033[K")
        if now - logged >= _LOG_SECONDS:
            logged = now
            logger.info("%s", text)
    if has_terminal:
        _draw(_CLEAR)


def _draw(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
