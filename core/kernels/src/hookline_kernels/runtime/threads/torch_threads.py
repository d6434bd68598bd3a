"""torch's number of threads, which governors lower during steps."""

import threading
from functools import cache

import torch


class TorchThreads:
    """Lowers torch's number for the step that a thread computes, and gives it back.

    torch keeps a number for each thread, and starts new threads with the one that any
    thread set last. So while a step is under way, torch cannot tell a new engine how
    many threads there are; this object can. Any thread may call it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lowering = 0
        self._all = 0

    def take_all(self) -> int:
        """Returns the number without what steps lower, and sets it for this thread."""
        with self._lock:
            number = self._all if self._lowering else torch.get_num_threads()
        if torch.get_num_threads() != number:
            torch.set_num_threads(number)
        return number

    def lower(self, number: int) -> None:
        """Sets a lower number for this thread, until it calls `restore`."""
        with self._lock:
            if not self._lowering:
                self._all = torch.get_num_threads()
            self._lowering += 1
        torch.set_num_threads(number)

    def restore(self) -> None:
        """Ends what `lower` began, in the thread that called it."""
        torch.set_num_threads(self._all)
        with self._lock:
            self._lowering -= 1


@cache
def torch_threads() -> TorchThreads:
    """Returns the one of this process."""
    return TorchThreads()
