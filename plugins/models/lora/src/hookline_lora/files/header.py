"""Reads the header of a safetensors file, and believes nothing that it says."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO, Final

MAX_HEADER_BYTES: Final = 16 << 20
ITEM_BYTES: Final[Mapping[str, int]] = {"BF16": 2, "F16": 2, "F32": 4}
"""Bytes of a number, by the types that are read."""
_LENGTH_BYTES = 8
_METADATA = "__metadata__"
_MOST_DIMENSIONS = 2
_MOST_SIZE = 1 << 40
_KEYS = {"dtype", "shape", "data_offsets"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a tensor is in its file.

    Attributes:
        dtype: A key of `ITEM_BYTES`.
        shape: One or two sizes.
        start: Its first byte in the file.
    """

    dtype: str
    shape: tuple[int, ...]
    start: int

    @property
    def num_bytes(self) -> int:
        """Bytes in the file."""
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]


def read_header(file: BinaryIO, size: int) -> dict[str, Place]:
    """Returns where each tensor of a file of `size` bytes is, by name.

    Together they cover everything behind the header, without gaps and overlaps.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is damaged, or has other types of numbers; in one clause.
    """
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if size < _LENGTH_BYTES or length > size - _LENGTH_BYTES:
        raise ValueError(f"its {size} bytes end in its header")
    if length > MAX_HEADER_BYTES:
        raise ValueError(
            f"its header has {length} bytes; at most {MAX_HEADER_BYTES >> 20} MiB are "
            "read"
        )
    start = _LENGTH_BYTES + length
    try:
        entries = json.loads(file.read(length), object_pairs_hook=_without_repetition)
    except RecursionError as error:
        raise ValueError("its header is nested too deeply") from error
    if not isinstance(entries, dict):
        raise ValueError("its header is no object")  # noqa: TRY004 - of the file
    entries.pop(_METADATA, None)
    places = {name: _place(name, entry, start) for name, entry in entries.items()}
    _refuse_gaps(places, start, size)
    return places


def _place(name: str, entry: object, data: int) -> Place:
    if not isinstance(entry, dict) or entry.keys() != _KEYS:
        raise ValueError(f"{short(name)} is not described by type, shape and offsets")
    dtype, shape, offsets = (entry[key] for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        raise ValueError(
            f"{short(name)} has numbers of type {short(dtype)}; "
            f"{', '.join(ITEM_BYTES)} are read"
        )
    if not _are_sizes(shape) or not 1 <= len(shape) <= _MOST_DIMENSIONS:
        raise ValueError(f"{short(name)} has the shape {short(shape)}")
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise ValueError(f"{short(name)} has the offsets {short(offsets)}")
    place = Place(dtype=dtype, shape=tuple(shape), start=data + offsets[0])
    if offsets[1] - offsets[0] != place.num_bytes:
        raise ValueError(
            f"{short(name)} has {offsets[1] - offsets[0]} bytes; its shape "
            f"{list(place.shape)} in {dtype} needs {place.num_bytes}"
        )
    return place


def _refuse_gaps(places: Mapping[str, Place], start: int, size: int) -> None:
    at = start
    for name, place in sorted(places.items(), key=lambda each: each[1].start):
        if place.start != at:
            what = "overlaps another tensor" if place.start < at else "follows a gap"
            raise ValueError(f"{short(name)} {what}")
        at += place.num_bytes
    if at != size:
        raise ValueError(f"it has {size} bytes, and its header describes {at}")


def _are_sizes(value: object) -> bool:
    return isinstance(value, list) and all(
        type(each) is int and 0 <= each <= _MOST_SIZE for each in value
    )


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("its header has a key twice")
    return found


def short(value: object) -> str:
    """Returns a value of a file as errors show it."""
    text = str(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= 120 else f"{text[:119]}…"
