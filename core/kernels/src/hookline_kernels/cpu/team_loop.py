"""The loop of a team's threads, which compute kernels and wait for the next one.

A job is a list of kernels, one after the other. The team's state says which one is
open, and how many threads are inside of it. A thread enters an open kernel, takes work
items until none is left, and leaves; the first that leaves closes the kernel, and the
last opens the next. So nobody waits for a thread that has not entered: one that is not
on a core when a kernel begins delays nobody.

The state is 64 bits: the number of the kernel since the team was made, modulo 2^32,
the number of threads that have left it, 16 bits, and the number inside of it.
"""

from typing import Any

from hookline_kernels.cpu.elements import exact
from hookline_kernels.cpu.memory import (
    exchange,
    int_at,
    number_now,
    replace_if,
    set_int,
    take,
)
from hookline_kernels.cpu.system_calls import (
    ALL,
    FUTEX_WAIT,
    FUTEX_WAKE,
    call_with,
    futex,
    leave_core,
    nanoseconds,
    pause,
    thread_nanoseconds,
)

# Words of a team, as indices of int64s. Each group has a cache line of its own.
STATE = 0
ASLEEP = 8
"""Numbers of sleeping workers, and of sleeping callers."""
ENTRIES, COUNT, FIRST, THREADS, IS_CLOSED = range(16, 21)
"""The job: address and number of its kernels, the number of the first, and the number
of threads that may compute it; whether the team has ended."""
SYSCALL, FUTEX, CLOCK, YIELD = range(24, 28)
"""Addresses of functions of the C library; the number of the call `futex`."""
SPIN_INSIDE, SPIN_BETWEEN, BUSY_SPIN, TICK, SLICE, BUSY_UNTIL = range(32, 38)
"""Nanoseconds to spin inside of a job, between jobs, and on a busy machine; between two
ticks of the system, 0 if unknown, and to run before a tick may take the core for
another thread. When the machine is no longer busy."""
ROWS = 40
"""Numbers of each thread, the caller's first."""
ROW = 16
"""int64s of a thread."""
WAITED, BEGAN, LOOKED, COMPUTED = range(4)
"""Of a thread: nanoseconds that it waited, when it got the core, when it last asked for
its time on cores, and the answer."""

_LEFT = 1 << 16
_PHASE = (1 << 32) - 1
_INSIDE = _LEFT - 1
_WORKERS, _CALLER, _SPARE = 1, 2, 4
"""Who waits at the futex: workers, the caller, workers that the job does not want."""
_BRIEF = 32
"""Looks at the state before the clock is read."""
_LOOKS = 16
"""Looks between two readings of the clock."""
_ENTRY = 24
_LOOK_EVERY = 1_000_000
"""Nanoseconds after which a thread asks again whether it has had its core."""
_ABSENT = 1_000_000
"""Nanoseconds without a core after which the machine is busy; the system takes less."""
_BUSY = 60_000_000
"""Nanoseconds for which the machine counts as busy."""
_BEFORE_TICK = 500_000
"""Nanoseconds before a tick in which a thread gives up the core that it would lose."""


@exact
def run_job(words: Any, entries: Any, count: Any, threads: Any) -> None:
    """Computes kernels with up to `threads` threads, and waits for the end.

    Args:
        words: The team's address.
        entries: Address of the kernels: [count, 3] int64, address of the kernel,
            address of its argument, and 1 if a single thread runs it.
        count: Number of kernels.
        threads: Number of threads that may take part.
    """
    if threads == 1:
        for index in range(count):
            at = entries + _ENTRY * index
            call_with(int_at(at, 0), int_at(at, 1))
        return
    first = (_phase(number_now(words)) + 1) & _PHASE
    is_more = threads > int_at(words, THREADS)
    set_int(words, ENTRIES, entries)
    set_int(words, COUNT, count)
    set_int(words, FIRST, first)
    set_int(words, THREADS, threads)
    row = words + 8 * ROWS
    now = nanoseconds(int_at(words, CLOCK))
    if now - int_at(row, LOOKED) > _LOOK_EVERY:
        _has_core(words, row, now)  # between jobs the caller may wait for anything
    done = (first + count) & _PHASE
    _open_next(words, 0)
    if is_more:
        _wake(words, _SPARE)
    while True:
        state = number_now(words)
        if _phase(state) == done:
            return
        if _is_open(state):
            _look(words, row)
            if replace_if(words, state, state + 1):
                _compute(words, state)
            continue
        _wait(words, row, state, SPIN_INSIDE, _CALLER)


@exact
def serve(words: Any, index: Any) -> None:
    """Takes part in all jobs until the team is closed; `index` is from 1 on."""
    row = words + 8 * (ROWS + ROW * index)
    _has_core(words, row, nanoseconds(int_at(words, CLOCK)))
    while True:
        state = number_now(words)
        if int_at(words, IS_CLOSED) != 0:
            return
        if index >= int_at(words, THREADS):
            _wait(words, row, state, BUSY_SPIN, _SPARE)
        elif _is_open(state):
            _look(words, row)
            if replace_if(words, state, state + 1):
                _compute(words, state)
        elif _is_done(words, state):
            _wait(words, row, state, SPIN_BETWEEN, _WORKERS)
        else:
            _wait(words, row, state, SPIN_INSIDE, _WORKERS)


@exact
def end_team(words: Any) -> None:
    """Ends all calls of `serve`."""
    set_int(words, IS_CLOSED, 1)
    take(words, 1 << 32)
    _wake(words, _WORKERS | _SPARE)


@exact
def _compute(words: Any, state: Any) -> None:
    """Computes an open kernel that this thread is inside of."""
    index = (_phase(state) - int_at(words, FIRST)) & _PHASE
    at = int_at(words, ENTRIES) + _ENTRY * index
    call_with(int_at(at, 0), int_at(at, 1))
    if (take(words, _LEFT - 1) - 1) & _INSIDE == 0:
        _open_next(words, index + 1)


@exact
def _open_next(words: Any, index: Any) -> None:
    """Runs kernels for one thread from an index on, and opens the first for all.

    Nobody is inside, and nobody can enter.
    """
    entries, count = int_at(words, ENTRIES), int_at(words, COUNT)
    while index < count and int_at(entries + _ENTRY * index, 2) != 0:
        at = entries + _ENTRY * index
        call_with(int_at(at, 0), int_at(at, 1))
        index += 1
    phase = (int_at(words, FIRST) + index) & _PHASE
    if index == count:
        exchange(words, phase << 32 | _LEFT)
        if number_now(words + 8 * (ASLEEP + 1)) > 0:
            _wake(words, _CALLER)
        return
    exchange(words, phase << 32)
    if number_now(words + 8 * ASLEEP) + number_now(words + 8 * (ASLEEP + 1)) > 0:
        _wake(words, _WORKERS | _CALLER)


@exact
def _wait(words: Any, row: Any, state: Any, spin: Any, who: Any) -> None:
    """Waits until another kernel is open, or the job is done: spins, then sleeps.

    On a busy machine it sleeps soon, which gives the core to a thread that is waited
    for.
    """
    phase = _phase(state)
    for _ in range(_BRIEF):
        if _phase(number_now(words)) != phase:
            return
        pause()
    begun = nanoseconds(int_at(words, CLOCK))
    is_busy = begun < int_at(words, BUSY_UNTIL)
    end = begun + int_at(words, BUSY_SPIN if is_busy else spin)
    now = begun
    while now < end:
        for _ in range(_LOOKS):
            if _phase(number_now(words)) != phase:
                break
            pause()
        now = nanoseconds(int_at(words, CLOCK))
        if _phase(number_now(words)) != phase:
            set_int(row, WAITED, int_at(row, WAITED) + now - begun)
            return
        if spin == SPIN_BETWEEN:
            leave_core(int_at(words, YIELD))  # if another thread wants it
    _sleep(words, phase, who)
    now = nanoseconds(int_at(words, CLOCK))
    set_int(row, WAITED, int_at(row, WAITED) + now - begun)
    _has_core(words, row, now)


@exact
def _sleep(words: Any, phase: Any, who: Any) -> None:
    asleep = words + 8 * (ASLEEP + 1 if who == _CALLER else ASLEEP)
    take(asleep, 1)
    while _phase(number_now(words)) == phase:
        futex(
            int_at(words, SYSCALL),
            int_at(words, FUTEX),
            words + 4,
            FUTEX_WAIT,
            phase,
            who,
        )
    take(asleep, -1)


@exact
def _look(words: Any, row: Any) -> None:
    """Notices whether the machine is busy; if so, gives the core up before a tick.

    There the system would take it in the middle of a kernel, and others would wait.
    """
    now = nanoseconds(int_at(words, CLOCK))
    if now - int_at(row, LOOKED) > _LOOK_EVERY:
        _notice(words, row, now)
    tick = int_at(words, TICK)
    if tick == 0 or now > int_at(words, BUSY_UNTIL):
        return
    # Linux's ticks are at multiples of their distance.
    left = tick - now % tick
    if left > _BEFORE_TICK or now + left - int_at(row, BEGAN) < int_at(words, SLICE):
        return
    leave_core(int_at(words, YIELD))
    now = nanoseconds(int_at(words, CLOCK))
    _notice(words, row, now)
    set_int(row, BEGAN, now)


@exact
def _notice(words: Any, row: Any, now: Any) -> None:
    """Asks whether another thread had this thread's core since the last question."""
    passed, before = now - int_at(row, LOOKED), int_at(row, COMPUTED)
    computed = thread_nanoseconds(int_at(words, CLOCK))
    set_int(row, LOOKED, now)
    set_int(row, COMPUTED, computed)
    if passed - (computed - before) > _ABSENT:
        set_int(words, BUSY_UNTIL, now + _BUSY)
        set_int(row, BEGAN, now)


@exact
def _has_core(words: Any, row: Any, now: Any) -> None:
    """Marks that this thread has a core now, and has not wanted one for a while."""
    set_int(row, BEGAN, now)
    set_int(row, LOOKED, now)
    set_int(row, COMPUTED, thread_nanoseconds(int_at(words, CLOCK)))


@exact
def _wake(words: Any, who: Any) -> None:
    futex(int_at(words, SYSCALL), int_at(words, FUTEX), words + 4, FUTEX_WAKE, ALL, who)


@exact
def _phase(state: Any) -> Any:
    return (state >> 32) & _PHASE


@exact
def _is_open(state: Any) -> Any:
    return state & _PHASE < _LEFT


@exact
def _is_done(words: Any, state: Any) -> Any:
    """Whether the team has no job."""
    return (_phase(state) - int_at(words, FIRST)) & _PHASE == int_at(words, COUNT)
