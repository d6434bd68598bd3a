"""Sockets and pipes that forked children must not hold."""

import os
import socket

from hookline_processes.forked_children import let_go, sockets_where


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
