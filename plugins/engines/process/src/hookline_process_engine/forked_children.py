"""Takes the transport's sockets and pipes from children that plugins fork."""

import os
import socket
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from hookline_processes.forked_children import in_forked_children, let_go, sockets_where


def release_in_forked_children(
    folder: Path, pipes: Callable[[], Iterable[int]]
) -> None:
    """Has forked children hold neither sockets of the folder nor the pipes.

    Args:
        folder: The folder of the transport's sockets.
        pipes: A method that returns the pipes' descriptors; its object may be deleted.
    """
    reference = weakref.WeakMethod(pipes)

    def release() -> None:
        if (method := reference()) is not None:
            let_go([*sockets_where(lambda each: _is_in(each, folder)), *method()])

    in_forked_children(release)


def _is_in(looked_at: socket.socket, folder: Path) -> bool:
    if looked_at.family != socket.AF_UNIX:
        return False
    names = [looked_at.getsockname()]
    with suppress(OSError):  # it may listen
        names.append(looked_at.getpeername())
    return any(os.fsdecode(name).startswith(f"{folder}/") for name in names)
