"""Limits of processes that work on others' input."""

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from hookline_host.memory import available_memory

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

_LEAST_BYTES = 256 * 2**20
"""Of what is left at the start some is freed later."""


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
    """Limits the address space to what is in use and `more_bytes`.

    In a container that has less left, that is the limit: input that needs more is
    refused, before the kernel kills a process for it.
    """
    if (available := available_memory()) is not None:
        more_bytes = min(more_bytes, max(_LEAST_BYTES, available))
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - quick
        now = int(file.read().split()[0]) * resource.getpagesize()
    _, largest = resource.getrlimit(resource.RLIMIT_AS)
    limit = now + more_bytes
    if largest == resource.RLIM_INFINITY or limit < largest:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def whole_file(descriptor: int) -> bytes:
    """Reads a file that other processes share, whose position is not to be moved."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)
