"""Reads the header of a GGUF file: metadata, and where its tensors are.

Every count and size is compared with the file before anything is allocated for it, so
that no file takes more memory than some times its header.
"""

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

Value = int | float | bool | str | list["Value"]

MAGIC: Final = b"GGUF"
_VERSIONS = (2, 3)
_SWAPPED = tuple(each << 24 for each in _VERSIONS)
_MOST_HEADER = 64 << 20
_MOST_KEYS = 1 << 16
_MOST_TENSORS = 1 << 16
_MOST_ELEMENTS = 1 << 22
"""Of all arrays together."""
_MOST_NAME = 1 << 16
_MOST_DIMENSIONS = 4
_MOST_NUMBERS = 1 << 40
_ALIGNMENT = "general.alignment"
_USUAL_ALIGNMENT = 32
_NUMBERS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9


class GgufError(ValueError):
    """A file that is not read, for the reason given in one clause after its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorPlace:
    """Where a tensor is.

    Attributes:
        path: The file.
        kind: Its format.
        shape: Rows first, as in torch.
        start: First byte in the file.
        nbytes: Bytes there.
    """

    path: Path
    kind: GGMLQuantizationType
    shape: tuple[int, ...]
    start: int
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a file says before its tensors' data.

    Attributes:
        metadata: Values by key.
        tensors: Where each tensor is, by name.
    """

    metadata: dict[str, Value]
    tensors: dict[str, TensorPlace]


def read_header(path: Path) -> Header:
    """Reads a file's header.

    Raises:
        GgufError: It is no GGUF file, or damaged, or of another version.
        OSError: It cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise GgufError(f"{path.name} is no GGUF file: it does not begin with GGUF")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _Reader(path, content, size).header()


class _Reader:
    """Reads from the beginning of a file on."""

    def __init__(self, path: Path, content: mmap.mmap, size: int) -> None:
        self._path, self._content, self._size = path, content, size
        self._end = min(size, _MOST_HEADER)
        self._at = len(MAGIC)
        self._elements = 0

    def header(self) -> Header:
        version = int(self._number("<I"))
        if version in _SWAPPED:
            raise self._error("is big-endian; only little-endian files are read")
        if version not in _VERSIONS:
            raise self._error(f"has version {version} of the format; 2 and 3 are read")
        num_tensors = self._count("tensors", _MOST_TENSORS)
        num_keys = self._count("keys", _MOST_KEYS)
        metadata: dict[str, Value] = {}
        for _ in range(num_keys):
            key = self._text(_MOST_NAME)
            if key in metadata:
                raise self._error(f"has the key {_short(key)} twice")
            metadata[key] = self._value(int(self._number("<I")))
        infos = [self._info() for _ in range(num_tensors)]
        return Header(metadata=metadata, tensors=self._places(infos, metadata))

    def _places(
        self,
        infos: list[tuple[str, GGMLQuantizationType, tuple[int, ...], int]],
        metadata: dict[str, Value],
    ) -> dict[str, TensorPlace]:
        alignment = metadata.get(_ALIGNMENT, _USUAL_ALIGNMENT)
        if not isinstance(alignment, int) or not 0 < alignment <= 1 << 16:
            raise self._error(f"has an alignment of {_short(alignment)}")
        data = -(-self._at // alignment) * alignment
        found: dict[str, TensorPlace] = {}
        for name, kind, shape, offset in infos:
            block, nbytes = GGML_QUANT_SIZES[kind]
            if not shape or shape[-1] % block:
                raise self._error(
                    f"has {_short(name)} of {shape}, no blocks of {block} {kind.name}"
                )
            count = 1
            for each in shape:
                count *= each
            length, start = count // block * nbytes, data + offset
            if offset % alignment or start + length > self._size:
                raise self._error(
                    f"is cut off or damaged: {_short(name)} ends at byte "
                    f"{start + length} of {self._size}"
                )
            if name in found:
                raise self._error(f"has the tensor {_short(name)} twice")
            found[name] = TensorPlace(
                path=self._path, kind=kind, shape=shape, start=start, nbytes=length
            )
        return found

    def _info(self) -> tuple[str, GGMLQuantizationType, tuple[int, ...], int]:
        name = self._text(_MOST_NAME)
        dimensions = int(self._number("<I"))
        if dimensions > _MOST_DIMENSIONS:
            raise self._error(f"has {_short(name)} of {dimensions} dimensions")
        sizes = [int(self._number("<Q")) for _ in range(dimensions)]
        product = 1
        for each in sizes:
            product *= each
        if not 0 < product <= _MOST_NUMBERS:
            raise self._error(f"has {_short(name)} of {sizes} numbers")
        code = int(self._number("<I"))
        try:
            kind = GGMLQuantizationType(code)
        except ValueError:
            raise self._error(
                f"has {_short(name)} in the unknown format {code}"
            ) from None
        return name, kind, tuple(reversed(sizes)), int(self._number("<Q"))

    def _value(self, code: int) -> Value:
        if code in _NUMBERS:
            return self._number(_NUMBERS[code])
        if code == _STRING:
            return self._text(self._end)
        if code == _ARRAY:
            return self._array()
        raise self._error(f"has a value of the unknown type {code}")

    def _array(self) -> list[Value]:
        code, count = int(self._number("<I")), int(self._number("<Q"))
        read: Callable[[], Value]
        if code == _STRING:
            read, least = (lambda: self._text(self._end)), 8
        elif code in _NUMBERS:
            form = _NUMBERS[code]
            read, least = (lambda: self._number(form)), struct.calcsize(form)
        else:
            raise self._error(f"has an array of the unknown type {code}")
        self._elements += count
        if self._elements > _MOST_ELEMENTS or count * least > self._end - self._at:
            raise self._error(f"is cut off or damaged: an array has {count} elements")
        return [read() for _ in range(count)]

    def _count(self, what: str, most: int) -> int:
        found = int(self._number("<Q"))
        if found > most:
            raise self._error(f"claims to have {found} {what}; at most {most} are read")
        return found

    def _text(self, most: int) -> str:
        length = int(self._number("<Q"))
        if length > most or length > self._end - self._at:
            raise self._error(f"is cut off or damaged: a text has {length} bytes")
        self._at += length
        return self._content[self._at - length : self._at].decode("utf-8", "replace")

    def _number(self, form: str) -> int | float | bool:
        length = struct.calcsize(form)
        if length > self._end - self._at:
            raise self._error(
                f"is cut off: its header does not end in {self._end} bytes"
            )
        (found,) = struct.unpack_from(form, self._content, self._at)
        self._at += length
        return found  # type: ignore[no-any-return]

    def _error(self, reason: str) -> GgufError:
        return GgufError(f"{self._path.name} {reason}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
