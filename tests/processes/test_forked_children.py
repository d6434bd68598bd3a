"""Sockets and pipes that forked children must not hold."""

import os
import socket
import threading

from hookline_processes.forked_children import let_go, sockets_where
from hookline_processes.owner import wait_for_owners_end


def test_finds_the_sockets_that_are_ours() -> None:
    """
    Only sockets that the caller accepts are found, and looking leaves them open.
    """
    with socket.socket() as ours, socket.socket() as others:
        ours.bind(("127.0.0.1", 0))
        others.bind(("127.0.0.1", 0))
        name = ours.getsockname()

        found = sockets_where(lambda each: each.getsockname() == name)

        assert found == [ours.fileno()]
        assert ours.getsockname() == name


def test_descriptors_that_are_let_go_stay_taken() -> None:
    """
    The other end sees the end, and the number is not given to what is opened next.
    """
    reading, writing = os.pipe()

    let_go([writing])
    opened = os.open(os.devnull, os.O_RDONLY)

    assert os.read(reading, 1) == b""
    assert opened != writing
    assert os.write(writing, b"x") == 1
    for descriptor in (reading, writing, opened):
        os.close(descriptor)


def test_owner_that_is_not_the_parent_has_ended() -> None:
    """
    An engine whose parent is another process than its owner does not wait for its pipe.
    """
    reading, writing = os.pipe()

    wait_for_owners_end(reading, owner=os.getppid() + 1)

    os.close(reading)
    os.close(writing)


def test_owner_ends_by_closing_the_pipe() -> None:
    """
    The wait goes on until the owner closes its end of the pipe.
    """
    reading, writing = os.pipe()
    ended = threading.Thread(target=wait_for_owners_end, args=(reading, os.getppid()))

    ended.start()
    os.write(writing, b"not the end")
    ended.join(0.1)
    is_waiting = ended.is_alive()
    os.close(writing)
    ended.join(10)

    assert is_waiting
    assert not ended.is_alive()
    os.close(reading)
