"""An index of earlier occurrences of a text's suffix, which grows with the text.

Each suffix length has an open-addressing table of end positions. Keys are compared in
the text itself, so an entry is one number, and hash collisions are harmless.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types

Int32 = npt.NDArray[np.int32]

_FEWEST_PLACES = 256
_SIGNATURE = types.int64(
    types.Array(types.int32, 1, "C", readonly=True),
    types.int64,
    types.int32[:, ::1],
    types.int64,
    types.boolean,
)


class SuffixIndex:
    """The suffix index of one text.

    Each token is entered once per length; full tables are rebuilt at twice the size.
    """

    def __init__(self, shortest: int, longest: int, *, keeps_first: bool) -> None:
        """Creates an empty index.

        Args:
            shortest: Minimum suffix length in tokens, at least 1.
            longest: Maximum suffix length in tokens.
            keeps_first: Whether the first of several matches counts, not the last.
        """
        self._shortest = shortest
        self._lengths = longest - shortest + 1
        self._keeps_first = keeps_first
        self._tables: Int32 = np.zeros((self._lengths, _FEWEST_PLACES), np.int32)
        self._num_entered = 0

    def find(self, token_ids: Int32) -> int:
        """Finds the end of an earlier occurrence of the longest matching suffix.

        Args:
            token_ids: [tokens] the tokens of the last call, and any number more.

        Returns:
            The position after the occurrence, or 0 without a match.
        """
        places = self._tables.shape[1]
        if 2 * len(token_ids) > places:
            while 2 * len(token_ids) > places:
                places *= 2
            self._tables = np.zeros((self._lengths, places), np.int32)
            self._num_entered = 0
        found = _enter_and_find(
            token_ids,
            self._num_entered,
            self._tables,
            self._shortest,
            self._keeps_first,
        )
        self._num_entered = len(token_ids) - 1
        return int(found)


def _hash(token_ids: Any, end: Any, length: Any) -> Any:
    value = np.uint64(length)
    for index in range(end - length, end):
        value = (value ^ np.uint64(token_ids[index])) * np.uint64(0x9E3779B97F4A7C15)
        value ^= value >> np.uint64(29)
    return value


_hash_run: Any = njit(inline="always")(_hash)


def _find_place(token_ids: Any, table: Any, end: Any, length: Any) -> Any:
    """Returns the table index of the run that ends at `end`, or a free one."""
    mask = np.uint64(len(table) - 1)
    place = np.int64(_hash_run(token_ids, end, length) & mask)
    while table[place] != 0:
        other = table[place]
        is_same = True
        for back in range(1, length + 1):
            if token_ids[other - back] != token_ids[end - back]:
                is_same = False
                break
        if is_same:
            break
        place = (place + 1) & np.int64(mask)
    return place


_place_of: Any = njit(_find_place)


def _walk(
    token_ids: Any, num_entered: Any, tables: Any, shortest: Any, keeps_first: Any
) -> Any:
    """Enters all runs that end before the last token, then looks up the suffixes."""
    lengths, total = len(tables), len(token_ids)
    for end in range(num_entered + 1, total):
        for row in range(lengths):
            length = shortest + row
            if length > end:
                break
            place = _place_of(token_ids, tables[row], end, length)
            if tables[row, place] == 0 or not keeps_first:
                tables[row, place] = end
    for row in range(lengths - 1, -1, -1):
        length = shortest + row
        if length < total:
            found = tables[row, _place_of(token_ids, tables[row], total, length)]
            if found != 0:
                return np.int64(found)
    return np.int64(0)


_enter_and_find: Any = njit(_SIGNATURE)(_walk)
