"""Threads that a plugin has left."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hookline_testing.conformance.subject import Subject

JOIN_SECONDS = 5.0


@contextmanager
def check_threads(subject: Subject) -> Iterator[None]:
    """Reports threads that were begun meanwhile and keep the process from its end."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if thread.daemon:
            continue
        thread.join(JOIN_SECONDS)
        if thread.is_alive():
            subject.fault(
                f"its thread {thread.name!r} goes on after its last call: end it "
                "there, or make it a daemon"
            )
