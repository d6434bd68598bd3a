"""Limits of processes that work on others' input."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_KEPT = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONUSERBASE",
    "TZ",
)
"""Variables that Python needs to find its modules, the language and the time zone; the
others may hold secrets."""


def small_environment() -> dict[str, str]:
    """Returns the variables of a process that handles input of others."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "TOKENIZERS_PARALLELISM": "false"}


@contextmanager
def processor_time(seconds: float) -> Iterator[None]:
    """Limits the processor time of its body: the kernel ends the process.

    Python does not handle the signal, so that code that never returns to the
    interpreter ends, too.
    """
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # whatever was inherited
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def limit_memory(more_bytes: int) -> None:
    """Limits the address space to what is in use and `more_bytes`."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - quick
        now = int(file.read().split()[0]) * resource.getpagesize()
    _, largest = resource.getrlimit(resource.RLIMIT_AS)
    limit = now + more_bytes
    if largest == resource.RLIM_INFINITY or limit < largest:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def whole_file(descriptor: int) -> bytes:
    """Reads a file that other processes share, whose position is not to be moved."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
