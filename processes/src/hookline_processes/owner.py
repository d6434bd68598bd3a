"""Notices that the process that owns this one has ended."""

import os
import select

_LOOK_MS = 500


def wait_for_owners_end(pipe: int, owner: int) -> None:
    """Returns once the owner has closed its end of the pipe, or has ended.

    The pipe alone would not do: a child that the owner's plugins have forked may hold
    its other end.

    Args:
        pipe: Descriptor of the end that this process reads.
        owner: Process id of the owner, the parent of this process.
    """
    poller = select.poll()
    poller.register(pipe, select.POLLIN | select.POLLHUP)
    while os.getppid() == owner:
        if poller.poll(_LOOK_MS) and not os.read(pipe, 1):
            return
