"""Finds a model's GGUF files: one, or the parts into which it was split."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from hookline_gguf.header import GgufError, Header, TensorPlace, Value, read_header

T = TypeVar("T", int, float, str, bool)

SUFFIX = ".gguf"
_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
_MOST_PARTS = 1024
_PROJECTOR = "mmproj"
"""Files beside a model's that have its image encoder."""


def model_path(path: Path) -> Path | None:
    """Returns the GGUF file that a path means: itself, or the one in a folder.

    Raises:
        GgufError: The folder has several.
    """
    if path.suffix == SUFFIX and path.is_file():
        return path
    if not path.is_dir():
        return None
    names = sorted(
        each.name
        for each in path.iterdir()
        if each.suffix == SUFFIX and not each.name.startswith(_PROJECTOR)
    )
    firsts = [
        name
        for name in names
        if (part := _PART.fullmatch(name)) is None or int(part["number"]) == 1
    ]
    if len(firsts) > 1:
        raise GgufError(
            f"has several GGUF files: name one of them, such as {path / firsts[0]}"
        )
    return path / (firsts or names)[0] if names else None


def model_paths(path: Path) -> list[Path]:
    """Returns all parts of the model that a file belongs to, in order.

    Raises:
        GgufError: A part is missing.
    """
    if (part := _PART.fullmatch(path.name)) is None:
        return [path]
    stem, count = part["stem"], int(part["count"])
    if not 0 < count <= _MOST_PARTS:
        raise GgufError(f"{path.name} is one of {count} parts")
    found = [
        path.with_name(f"{stem}-{number:05}-of-{part['count']}{SUFFIX}")
        for number in range(1, count + 1)
    ]
    if missing := [each.name for each in found if not each.is_file()]:
        raise GgufError(
            f"{len(missing)} of its {count} parts are missing, such as {missing[0]}"
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufModel:
    """The metadata and tensors of a model, in one file or several.

    Attributes:
        metadata: Values by key, of the first file.
        tensors: Where each tensor is, by name.
    """

    metadata: dict[str, Value]
    tensors: dict[str, TensorPlace]

    @property
    def architecture(self) -> str:
        """The model's kind, as the format names it."""
        return self.get("general.architecture", str)

    def own(self, key: str, kind: type[T], default: T | None = None) -> T:
        """Returns a value whose key begins with the architecture."""
        return self.get(f"{self.architecture}.{key}", kind, default)

    def find(self, key: str, kind: type[T]) -> T | None:
        """Returns a value, or None if there is none."""
        return self.get(key, kind) if key in self.metadata else None

    def get(self, key: str, kind: type[T], default: T | None = None) -> T:
        """Returns a value.

        Raises:
            GgufError: It is missing and has no default, or has another type.
        """
        found = self.metadata.get(key, default)
        if found is None:
            raise GgufError(f"its metadata has no {key}")
        if kind is float and isinstance(found, int) and not isinstance(found, bool):
            found = float(found)
        if not isinstance(found, kind) or (
            isinstance(found, bool) and kind is not bool
        ):
            raise GgufError(f"its {key} is no {kind.__name__}")
        return found

    def all_of(self, key: str, kind: type[T]) -> list[T]:
        """Returns the elements of an array; none if it is missing."""
        found = self.metadata.get(key, [])
        if not isinstance(found, list) or not all(type(each) is kind for each in found):
            raise GgufError(f"its {key} is no array of {kind.__name__}")
        return found  # type: ignore[return-value]


def read_model(paths: Sequence[Path]) -> GgufModel:
    """Reads the headers of all parts.

    Raises:
        GgufError: A file is damaged, or they do not belong together.
        OSError: A file cannot be read.
    """
    headers = [read_header(each) for each in paths]
    tensors: dict[str, TensorPlace] = {}
    for path, header in zip(paths, headers, strict=True):
        _check_count(path, header, len(paths))
        if twice := tensors.keys() & header.tensors.keys():
            raise GgufError(f"{path.name} repeats {min(twice)} of another part")
        tensors |= header.tensors
    found = GgufModel(metadata=headers[0].metadata, tensors=tensors)
    expected = found.get("split.tensors.count", int, len(tensors))
    if expected != len(tensors):
        raise GgufError(f"its parts have {len(tensors)} of {expected} tensors")
    return found


def _check_count(path: Path, header: Header, count: int) -> None:
    named = header.metadata.get("split.count", count)
    if named not in (count, 0) and not (count == 1 and named == 1):
        raise GgufError(
            f"{path.name} is one of {named} parts, whose names must end in "
            f"-00001-of-{named:05}{SUFFIX}"
            if isinstance(named, int)
            else f"{path.name} has a split.count that is no number"
        )
