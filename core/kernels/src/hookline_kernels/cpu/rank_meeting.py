"""One rank's meetings with the others of its machine, and what came of them."""

import functools
from typing import Any

import numpy as np

from hookline_kernels.cpu.elements import array_at, exact
from hookline_kernels.cpu.launching import Kernel, numbers_of
from hookline_kernels.cpu.meeting import (
    CLOCK,
    DEADLINE,
    MOST_RANKS,
    NAP,
    RANK,
    SHARED,
    SIZE,
    SPENT,
    STATUS,
    WAITED,
    WORDS,
    YIELD,
    meet,
)
from hookline_kernels.cpu.memory import int_at, set_int
from hookline_kernels.cpu.system_calls import address_in_libc, nanoseconds

ALONE = 1
"""Number of elements to give a launch, so that one thread runs it."""


class RankMeeting:
    """One rank's side of the meetings; for one thread. All make the same calls.

    Attributes:
        rank: Index of this rank.
        size: Number of ranks.
    """

    def __init__(
        self, shared: int, rank: int, size: int, *, deadline_seconds: float
    ) -> None:
        """Attaches to the shared memory.

        Args:
            shared: Its address; `meeting.HEAD_BYTES`, zero at first, alive as long as
                this.
            rank: Index of this rank.
            size: Number of ranks.
            deadline_seconds: How long to wait for the others.

        Raises:
            KernelError: No compiler is installed, or the system is not supported.
            ValueError: There are more ranks than `MOST_RANKS`.
        """
        if size > MOST_RANKS:
            raise ValueError(f"at most {MOST_RANKS} ranks, not {size}")
        self.rank, self.size = rank, size
        self._words = np.zeros(WORDS, np.int64)
        for index, value in (
            (RANK, rank),
            (SIZE, size),
            (SHARED, shared),
            (DEADLINE, round(deadline_seconds * 1e9)),
            (CLOCK, address_in_libc("clock_gettime")),
            (YIELD, address_in_libc("sched_yield")),
            (NAP, address_in_libc("usleep")),
        ):
            self._words[index] = value

    @property
    def absent(self) -> int | None:
        """The rank that has not come in time; None if all have."""
        status = int(self._words[STATUS])
        return status - 1 if status > 0 else None

    @property
    def contrary(self) -> int | None:
        """A rank that has come with something else; None if none has."""
        status = int(self._words[STATUS])
        return -1 - status if status < 0 else None

    @property
    def spent_ns(self) -> int:
        """Total time of all exchanges, ns."""
        return int(self._words[SPENT])

    @property
    def waited_ns(self) -> int:
        """What of it this rank has waited for others, ns."""
        return int(self._words[WAITED])

    def meet(self, purpose: int) -> None:
        """Waits until all ranks have come for the same purpose, any small number.

        Once a rank has not come, it does nothing.
        """
        meeting_kernel()(ALONE, numbers_of(self._words.ctypes.data, purpose))


@functools.cache
def meeting_kernel() -> Kernel:
    """Compiles the meeting.

    Raises:
        KernelError: No compiler is installed.
    """

    def meeting_of_ranks(numbers: Any) -> None:
        given = array_at(numbers, 3, np.int64)
        words, purpose = given[1], given[2]
        begun = nanoseconds(int_at(words, CLOCK))
        if int_at(words, STATUS) == 0:
            meet(words, purpose)
        spend(words, begun)

    return Kernel(meeting_of_ranks, "meeting-of-ranks")


@exact
def spend(words: Any, begun: Any) -> None:
    """Counts the time since `begun`, ns, as time of an exchange."""
    spent = nanoseconds(int_at(words, CLOCK)) - begun
    set_int(words, SPENT, int_at(words, SPENT) + spent)
