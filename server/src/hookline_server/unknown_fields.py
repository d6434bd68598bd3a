"""Counts the fields of requests that the server does not know and ignores."""

import re
from collections import Counter
from functools import cache
from itertools import islice

import msgspec

from hookline_metrics.front_end_parts import UnknownFieldStats

OTHER = "other"
MAX_NAMES = 31
"""Maximum names that are counted separately; further ones count as `other`."""
MAX_LENGTH = 64

_UNUSUAL = re.compile(r"[^A-Za-z0-9_.-]")
_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


class UnknownFields:
    """The unknown fields of all requests of a server, by name."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, body: bytes, kind: type) -> None:
        """Counts the unknown fields of a body that was decoded as this struct."""
        known = _names(kind)
        try:
            names = _decoder.decode(body)
        except UnicodeDecodeError:  # in a name: the struct's decoder skips it unread
            self._counts[OTHER] += 1
            return
        if known.issuperset(names):
            return
        unknown = [name for name in names if name not in known]
        for name in islice(unknown, MAX_NAMES):
            self._counts[self._label(name)] += 1
        if len(unknown) > MAX_NAMES:
            self._counts[OTHER] += len(unknown) - MAX_NAMES

    def stats(self) -> UnknownFieldStats:
        """Totals since the start."""
        return UnknownFieldStats(fields=tuple(self._counts.items()))

    def _label(self, name: str) -> str:
        label = _UNUSUAL.sub("_", name[:MAX_LENGTH]) or "_"
        num_names = len(self._counts) - (OTHER in self._counts)
        return label if label in self._counts or num_names < MAX_NAMES else OTHER


@cache
def _names(kind: type) -> frozenset[str]:
    """Returns the names of a struct's fields in JSON."""
    return frozenset(each.encode_name for each in msgspec.structs.fields(kind))
