"""How the ranks of one machine meet: each waits until all have come.

Ranks share memory: a line for each with the number of meetings that it has come to, and
two slots for each, which meetings use in turn. What a rank has written into its slot
before a meeting all others may read after it, and until they come to the next one. So a
rank writes into a slot again only when nobody reads it any more, and one meeting for
each exchange is enough.
"""

from typing import Any

from hookline_kernels.cpu.elements import exact
from hookline_kernels.cpu.memory import exchange, int_at, number_now, set_int
from hookline_kernels.cpu.system_calls import leave_core, nanoseconds, nap, pause

# A rank's own words, as indices of int64s.
MEETINGS, STATUS, WAITED, SPENT = range(4)
"""Number of meetings; what went wrong, 0 for nothing; nanoseconds that this rank has
waited, and that its exchanges took."""
RANK, SIZE, SHARED, SLOT_BYTES, DEADLINE = range(4, 9)
"""This rank, the number of ranks, the address of the shared memory, the size of a slot,
and the nanoseconds after which a rank that has not come counts as gone."""
CLOCK, YIELD, NAP = range(9, 12)
"""Addresses of functions of the C library."""
WORDS = 12

LINE_BYTES = 64
HEAD_BYTES = 4096
"""Bytes of all lines, before the slots; for at most 64 ranks."""
MOST_RANKS = HEAD_BYTES // LINE_BYTES

_BRIEF = 64
"""Looks before the clock is read."""
_LOOKS = 32
"""Looks between two readings of the clock."""
_SPIN_NS, _YIELD_NS, _NAP_MICROSECONDS = 100_000, 1_000_000, 50
"""How long a rank looks without pause, then leaves its core to any thread that wants
it, and then sleeps between looks."""


@exact
def slot_of(words: Any, rank: Any) -> Any:
    """Returns the address of a rank's slot for the next meeting."""
    turn = (int_at(words, MEETINGS) + 1) & 1
    slots = turn * int_at(words, SIZE) + rank
    return int_at(words, SHARED) + HEAD_BYTES + slots * int_at(words, SLOT_BYTES)


@exact
def meet(words: Any, count: Any) -> Any:
    """Waits until all ranks have come; returns whether they have.

    Args:
        words: Address of this rank's words.
        count: What is exchanged: all ranks must come with the same number.
    """
    rank, size = int_at(words, RANK), int_at(words, SIZE)
    shared, number = int_at(words, SHARED), int_at(words, MEETINGS) + 1
    turn = number & 1
    own = shared + LINE_BYTES * rank
    set_int(own, 1 + turn, count)
    exchange(own, number)
    for other in range(size):
        line = shared + LINE_BYTES * other
        if other == rank:
            continue
        if not _await(words, line, number):
            set_int(words, STATUS, 1 + other)
            return False
        if int_at(line, 1 + turn) != count:
            set_int(words, STATUS, -1 - other)
            return False
    set_int(words, MEETINGS, number)
    return True


@exact
def _await(words: Any, line: Any, number: Any) -> Any:
    for _ in range(_BRIEF):
        if number_now(line) >= number:
            return True
        pause()
    clock = int_at(words, CLOCK)
    begun = now = nanoseconds(clock)
    deadline = begun + int_at(words, DEADLINE)
    while number_now(line) < number:
        if now > deadline:
            return False
        if now < begun + _SPIN_NS:
            for _ in range(_LOOKS):
                pause()
        elif now < begun + _YIELD_NS:
            leave_core(int_at(words, YIELD))
        else:
            nap(int_at(words, NAP), _NAP_MICROSECONDS)
        now = nanoseconds(clock)
    set_int(words, WAITED, int_at(words, WAITED) + now - begun)
    return True
