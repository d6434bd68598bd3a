"""Takes this process's sockets and pipes from the children that plugins fork.

A child that `fork` makes holds every descriptor of its parent. If it lives on, a port
stays taken and a pipe stays open after the parent has ended. Children that `exec`
another program are not concerned: no descriptor of ours is inheritable.
"""

import os
import signal
import socket
import stat
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FOLDER = Path("/dev/fd")
"""The folder of this process's descriptors, on Linux and macOS."""

_kept: "weakref.WeakSet[socket.socket]" = weakref.WeakSet()
"""A handler of forks stays in force for ever, so that all sockets share one."""

_forking = threading.RLock()
"""Held by a thread that forks; its copy in the child is that thread's, too."""

_ENDING = (signal.SIGTERM, signal.SIGINT)


def in_forked_children(call: Callable[[], None]) -> None:
    """Has each child that this process forks run `call` first, until `exec`.

    It stays in force as long as this process lives.
    """
    os.register_at_fork(after_in_child=call)


@contextmanager
def no_forks() -> Iterator[None]:
    """Has forks of other threads wait until the body has ended.

    For a body that opens descriptors which no forked child may hold, and closes them or
    passes them to `keep_from_forked_children`. `subprocess.Popen`, too, needs it: it
    opens a pipe and waits until all copies of one end are closed.
    """
    with _forking:
        yield


def keep_from_forked_children(channel: socket.socket) -> None:
    """Has forked children not hold a socket, as long as it is open here.

    Whoever opens it beside other threads does both within `no_forks`.
    """
    _kept.add(channel)


def release_folder_in_forked_children(folder: Path) -> None:
    """Has forked children hold no sockets with addresses in the folder."""
    in_forked_children(lambda: let_go(sockets_where(lambda each: _is_in(each, folder))))


def sockets_where(is_ours: Callable[[socket.socket], bool]) -> list[int]:
    """Returns the descriptors of this process's sockets that `is_ours` accepts."""
    found = []
    for path in list(_FOLDER.iterdir()):
        descriptor = int(path.name)
        with suppress(OSError):  # the folder's own descriptor is closed by now
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            looked_at = socket.socket(fileno=descriptor)
            try:
                if is_ours(looked_at):
                    found.append(descriptor)
            finally:
                looked_at.detach()
    return found


def let_go(descriptors: Iterable[int]) -> None:
    """Makes descriptors lead to /dev/null.

    Their numbers stay taken: objects that the child has from its parent would otherwise
    close whatever the child opens under them.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(null, descriptor, inheritable=False)
    os.close(null)


def let_signals_end_children() -> None:
    """Has SIGTERM and SIGINT end forked children, and not reach our event loop.

    Signals to a child that come before it has changed its handlers wait until then. It
    stays in force as long as this process lives.
    """
    os.register_at_fork(
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING),
        after_in_parent=_unblock,
        after_in_child=_forget_signals,
    )


def _forget_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in _ENDING:
        signal.signal(number, signal.SIG_DFL)
    _unblock()


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


def _after_fork() -> None:
    _forking.release()
    let_go([each.fileno() for each in _kept if each.fileno() >= 0])


def _is_in(looked_at: socket.socket, folder: Path) -> bool:
    if looked_at.family != socket.AF_UNIX:
        return False
    names = [looked_at.getsockname()]
    with suppress(OSError):  # it may listen
        names.append(looked_at.getpeername())
    paths = (
        os.fsdecode(each).replace("\0", "@", 1) for each in names
    )  # without a file
    return any(each.startswith(f"{folder}/") for each in paths)


os.register_at_fork(
    before=_forking.acquire,
    after_in_parent=_forking.release,
    after_in_child=_after_fork,
)
