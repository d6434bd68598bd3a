"""Child processes that work on others' input, within limits: how both ends do it."""

import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import msgspec

LENGTH_BYTES = 4
"""Bytes of a frame's length, little-endian, before its msgpack."""

_OWNER_CHECK_SECONDS = 2.0

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


def start_child(
    module: str,
    setup_fd: int,
    channel: socket.socket,
    *,
    cpu_seconds: float,
    memory_bytes: int,
) -> subprocess.Popen[bytes]:
    """Starts a module as a process that ends with this one.

    Args:
        module: Its arguments are `setup_fd`, the limits and this process's id.
        setup_fd: File that it inherits.
        channel: Its standard input, a socket.
        cpu_seconds: Processor time for one job.
        memory_bytes: Address space for jobs.
    """
    arguments = map(str, (setup_fd, cpu_seconds, memory_bytes, os.getpid()))
    return subprocess.Popen(  # noqa: S603 - no input of anyone else
        [sys.executable, "-m", module, *arguments],
        stdin=channel.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # libraries write there in their own formats
        pass_fds=[setup_fd],
        env=small_environment(),
    )


def end_with_owner(owner: int) -> None:
    """Ends this process soon after its owner, and only then.

    The owner's end of a socket alone would not do: a child that the owner's plugins
    have forked may hold it. Other signals to end are ignored: the owner decides.
    """

    def check(*_: object) -> None:
        if os.getppid() != owner:
            os._exit(0)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, check)
    signal.setitimer(signal.ITIMER_REAL, _OWNER_CHECK_SECONDS, _OWNER_CHECK_SECONDS)


@contextmanager
def processor_time(seconds: float) -> Iterator[None]:
    """Limits the processor time of its body: the kernel ends the process.

    Python does not handle the signal, so that code that never returns to the
    interpreter ends, too.
    """
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


def frame(message: msgspec.Struct) -> bytes:
    """Returns a message in msgpack with its length in front."""
    data = msgspec.msgpack.encode(message)
    return len(data).to_bytes(LENGTH_BYTES, "little") + data


def next_frame(incoming: BinaryIO) -> bytes | None:
    """Reads the next message, without its length; None at the end."""
    head = incoming.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    length = int.from_bytes(head, "little")
    data = incoming.read(length)
    return data if len(data) == length else None


def take_frame(incoming: bytearray) -> bytes | None:
    """Removes the first message from what has come; None if it is not complete."""
    if len(incoming) < LENGTH_BYTES:
        return None
    end = LENGTH_BYTES + int.from_bytes(incoming[:LENGTH_BYTES], "little")
    if len(incoming) < end:
        return None
    whole = bytes(incoming[LENGTH_BYTES:end])
    del incoming[:end]
    return whole
