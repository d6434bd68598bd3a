"""Reads files of datasets; each problem is one error that names the place."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from hookline.exceptions import ConfigError

T = TypeVar("T")


def read_lines(path: str, kind: type[T]) -> Iterator[tuple[int, T]]:
    """Yields the number and the content of each line of JSON; blank ones are skipped.

    Raises:
        ConfigError: The file cannot be read, or a line is wrong.
    """
    decode = msgspec.json.Decoder(kind).decode
    for number, line in enumerate(_content(path).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise wrong_line(path, number, str(error)) from error
        yield number, entry


def read_entries(path: str, kind: type[T]) -> Iterator[T]:
    """Yields the content of each entry of a file with one JSON array.

    Raises:
        ConfigError: The file cannot be read, or an entry is wrong.
    """
    try:
        entries: object = json.loads(_content(path))
    except (ValueError, RecursionError) as error:
        raise ConfigError("dataset-path", f"{path} is not JSON: {error}") from error
    if not isinstance(entries, list):
        raise ConfigError("dataset-path", f"{path} is not a JSON array")
    for number, entry in enumerate(entries, start=1):
        try:
            made = msgspec.convert(entry, kind)
        except msgspec.ValidationError as error:
            raise ConfigError(
                "dataset-path", f"entry {number} of {path}: {error}"
            ) from error
        yield made


def wrong_line(path: str, number: int, detail: str) -> ConfigError:
    """Returns the error of a line."""
    return ConfigError("dataset-path", f"line {number} of {path}: {detail}")


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        detail = f"cannot read {path}: {error.strerror}"
        raise ConfigError("dataset-path", detail) from error
