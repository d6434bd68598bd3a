"""Work in the background that leaves the processors to an engine's steps."""

import time
from collections.abc import Callable

Rest = Callable[[], None]
"""To be called after each piece of work."""

_BUSY_SECONDS = 0.5
"""How long an engine counts as busy after a step."""
_REST_OF_WORK = 9
"""Nine tenths of the time are rests."""
_LONGEST_REST = 0.1


class Pacing:
    """Tells threads in the background to rest while steps are computed.

    A low priority alone does not do: who is put aside while it holds the interpreter's
    lock has everybody wait.
    """

    def __init__(self) -> None:
        """Has seen no step."""
        self._stepped_at = float("-inf")

    def stepped(self) -> None:
        """A step is computed."""
        self._stepped_at = time.monotonic()

    def rests(self) -> Rest:
        """Returns what rests in proportion to the calling thread's work since now."""
        since = time.thread_time()

        def rest() -> None:
            nonlocal since
            if time.monotonic() - self._stepped_at < _BUSY_SECONDS:
                worked = time.thread_time() - since
                time.sleep(min(_REST_OF_WORK * worked, _LONGEST_REST))
            since = time.thread_time()

        return rest


def no_rest() -> None:
    """Goes on at once."""
