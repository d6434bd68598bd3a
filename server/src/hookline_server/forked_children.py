"""Takes the server's sockets and signals from children that loggers fork."""

import socket
from collections.abc import Iterable

from hookline_processes.forked_children import (
    in_forked_children,
    let_go,
    let_signals_end_children,
    sockets_where,
)


def release_in_forked_children(listening: Iterable[socket.socket]) -> None:
    """Has forked children hold neither these sockets nor connections to them.

    For the process's main function: it stays in force as long as the process lives.
    """
    own = frozenset(_place(each) for each in listening)

    def release() -> None:
        let_go(sockets_where(lambda each: _place(each) in own))

    in_forked_children(release)
    let_signals_end_children()


def _place(bound: socket.socket) -> object:
    """Returns what a listening socket and its connections have in common."""
    if bound.family in {socket.AF_INET, socket.AF_INET6}:
        return bound.getsockname()[1]
    return bound.getsockname() or None
