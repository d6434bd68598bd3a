"""A table in shared memory: what each API server has open, for all of them."""

import mmap
import os
import time

_FIELDS = 3
_CONNECTIONS, _STREAMS, _BEAT = range(_FIELDS)
_WORD_BYTES = 8

STALE_SECONDS = 1.0
"""Age of a server's last beat beyond which it takes no connections."""


class Shares:
    """One place for each API server, which only that server writes while it lives.

    Numbers are single words, so that readers see them whole.
    """

    def __init__(self, descriptor: int, places: int) -> None:
        """Maps a table.

        Args:
            descriptor: The table's file, from `make`; it may be closed afterwards.
            places: Number of places.
        """
        self._places = places
        self._map = mmap.mmap(descriptor, places * _FIELDS * _WORD_BYTES)
        self._words = memoryview(self._map).cast("q")

    @staticmethod
    def make(places: int) -> int:
        """Returns the descriptor of a new table, whose places are all empty."""
        descriptor = os.memfd_create("hookline-api-servers")
        os.ftruncate(descriptor, places * _FIELDS * _WORD_BYTES)
        return descriptor

    def clear(self, place: int) -> None:
        """Empties the place of a server that has ended."""
        for field in range(_FIELDS):
            self._put(place, field, 0)

    def beat(self, place: int) -> None:
        """Marks a server as alive."""
        self._put(place, _BEAT, time.monotonic_ns())

    def beat_of(self, place: int) -> int:
        """Returns the time of a server's last beat, in ns; 0 if there was none."""
        return self._get(place, _BEAT)

    def put_connections(self, place: int, count: int) -> None:
        self._put(place, _CONNECTIONS, count)

    def put_streams(self, place: int, count: int) -> None:
        self._put(place, _STREAMS, count)

    @property
    def streams(self) -> int:
        """Number of open streams of all servers."""
        return sum(self._get(place, _STREAMS) for place in range(self._places))

    def has_fewest_connections(self, place: int) -> bool:
        """Whether no other server that lives has fewer connections than this one."""
        oldest = time.monotonic_ns() - round(STALE_SECONDS * 1e9)
        mine = self._get(place, _CONNECTIONS)
        return all(
            self._get(other, _CONNECTIONS) >= mine
            for other in range(self._places)
            if other != place and self._get(other, _BEAT) > oldest
        )

    def _put(self, place: int, field: int, value: int) -> None:
        self._words[place * _FIELDS + field] = value

    def _get(self, place: int, field: int) -> int:
        return self._words[place * _FIELDS + field]
