"""How ranks on several machines find each other: process groups of gloo.

One of them has a store in which all leave the addresses of their sockets. It is open
until all have met. Neither the store nor gloo encrypts or authenticates.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import cast

import torch
from torch._C._distributed_c10d import (
    PrefixStore,
    ProcessGroup,
    ProcessGroupGloo,
    Store,
    TCPStore,
)

from hookline.exceptions import RankError

DEADLINE_SECONDS = 600.0
"""How long a rank waits for others. The executor ends all ranks once one has ended;
this ends ranks that wait for different things."""
_NOTICE_SECONDS = 3.0
"""Time that the executor has to end this rank when another one has ended: it knows
which one."""
_BACKLOG = 128


def host_store(address: str, deadline_seconds: float = DEADLINE_SECONDS) -> TCPStore:
    """Opens a store at a free port of this machine's address; `port` tells which.

    It closes with the object, so that ranks meet through connections of their own.

    Args:
        address: Numeric address of this machine, as the other ranks reach it.
        deadline_seconds: How long a look into the store waits.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.bind((address, 0))  # by itself it would listen on all interfaces
    listening.listen(_BACKLOG)
    port = listening.getsockname()[1]
    return TCPStore(
        address,
        port,
        is_master=True,
        timeout=timedelta(seconds=deadline_seconds),
        wait_for_workers=False,
        master_listen_fd=listening.detach(),  # the store closes it
    )


def reach_store(
    address: str, port: int, deadline_seconds: float = DEADLINE_SECONDS
) -> Store:
    """Connects to the store of another rank."""
    return TCPStore(address, port, timeout=timedelta(seconds=deadline_seconds))


def meet(
    store: Store,
    name: str,
    rank: int,
    size: int,
    *,
    address: str,
    deadline_seconds: float = DEADLINE_SECONDS,
) -> ProcessGroup:
    """Connects all ranks of a group to each other, and waits for all of them.

    Args:
        store: Where they find each other.
        name: Name of the group, different from those of other groups.
        rank: Index of this rank in the group.
        size: Number of its ranks.
        address: Numeric address of this machine, at which gloo listens.
        deadline_seconds: How long each call waits for other ranks.

    Raises:
        RankError: They do not come.
    """
    with meeting(rank):
        options = ProcessGroupGloo._Options()  # type: ignore[attr-defined]  # noqa: SLF001
        options._timeout = timedelta(seconds=deadline_seconds)  # noqa: SLF001
        options._devices = [ProcessGroupGloo.create_device(hostname=address)]  # noqa: SLF001
        options._threads = 1  # noqa: SLF001 - one call at a time
        made = ProcessGroupGloo(PrefixStore(name, store), rank, size, options)
        group = cast("ProcessGroup", made)  # has all its calls, but not by its stub
        group.barrier().wait()
    return group


@contextmanager
def meeting(rank: int) -> Iterator[None]:
    """Raises errors of gloo as errors of a rank.

    Most of them come because another rank has ended, whose end the executor sees.

    Args:
        rank: Index of this rank, for errors.
    """
    try:
        yield
    except RuntimeError as error:
        time.sleep(_NOTICE_SECONDS)
        reason = str(error).partition("\n")[0]
        raise RankError(rank, f"its exchange with others failed: {reason}") from error


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a contiguous tensor as bytes, which gloo moves whatever they are."""
    return tensor.reshape(-1).view(torch.uint8)
