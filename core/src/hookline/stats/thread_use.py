"""What the threads that compute steps on CPUs did."""

import msgspec


class ThreadUse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The threads of one step; times are in ns.

    Attributes:
        threads: Number of threads that computed the step; 0 if there is no such team.
        barrier_wait_ns: Time in which threads waited for each other, summed over them.
        running_ns: Time of the threads on cores since the last report. Several steps
            share a report: it is 0 in most of them, as are the times below.
        preempted_ns: Time in which threads could run, but had no core.
        throttled_ns: Time in which the control group's CPU quota stopped the process.
    """

    threads: int = 0
    barrier_wait_ns: int = 0
    running_ns: int = 0
    preempted_ns: int = 0
    throttled_ns: int = 0


NO_THREADS = ThreadUse()
