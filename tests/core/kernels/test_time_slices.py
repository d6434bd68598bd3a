"""Short time slices of threads."""

import os
import threading

from hookline_kernels.cpu.time_slices import take_short_slices


def test_a_thread_keeps_its_scheduler_and_priority() -> None:
    """Linux accepts the request; older versions ignore it."""
    found = []

    def ask() -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 7)
        accepted = take_short_slices()
        scheduler = os.sched_getscheduler(0)
        nice = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        found.append((accepted, scheduler, nice))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()

    assert found == [(True, os.SCHED_OTHER, 7)]


def test_other_schedulers_have_no_slices() -> None:
    """A batch thread stays one."""
    found = []

    def ask() -> None:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        found.append((take_short_slices(), os.sched_getscheduler(0)))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()

    assert found == [(False, os.SCHED_BATCH)]
