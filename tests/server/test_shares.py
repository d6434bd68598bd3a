"""What API servers know of one another: connections, streams, signs of life."""

import os
from collections.abc import Iterator

import pytest

from hookline_server.api_servers.shares import Shares


@pytest.fixture
def shares() -> Iterator[Shares]:
    descriptor = Shares.make(3)
    yield Shares(descriptor, 3)
    os.close(descriptor)


def test_the_server_with_the_fewest_connections_is_next(shares: Shares) -> None:
    """Of those that live; equal ones are all next."""
    for place, connections in enumerate((2, 1, 1)):
        shares.beat(place)
        shares.put_connections(place, connections)

    assert [shares.has_fewest_connections(place) for place in range(3)] == [
        False,
        True,
        True,
    ]


def test_servers_without_a_sign_of_life_are_not_waited_for(shares: Shares) -> None:
    """Be it that they have not begun, or that they hang."""
    shares.beat(0)
    shares.put_connections(0, 5)

    assert shares.has_fewest_connections(0)


def test_streams_of_all_servers_are_summed_up(shares: Shares) -> None:
    """Until a server's place is cleared."""
    shares.put_streams(0, 3)
    shares.put_streams(2, 4)

    assert shares.streams == 7

    shares.clear(2)

    assert shares.streams == 3
    assert shares.beat_of(2) == 0


def test_two_mappings_of_a_table_are_one(shares: Shares) -> None:
    """What one process writes, another reads."""
    descriptor = Shares.make(2)
    mine, theirs = Shares(descriptor, 2), Shares(descriptor, 2)
    os.close(descriptor)

    mine.put_streams(1, 9)

    assert theirs.streams == 9
    assert shares.streams == 0
