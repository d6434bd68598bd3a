"""Reads the file of API keys; errors never quote what could be a key."""

from dataclasses import dataclass, field
from pathlib import Path

import yaml

from hookline_server.auth.key import KeySet
from hookline_server.auth.key_entries import keys_of

MOST_BYTES = 8 * 1024 * 1024

# The one in C is five times as fast; both read plain data only.
_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A file of keys, and its content when it was first read.

    Attributes:
        stamp: Its `file_stamp` before that.
    """

    path: str
    content: KeySet = field(repr=False)
    stamp: tuple[int, int, int] | None = None


def key_file(path: str) -> KeyFile:
    """Reads a file of keys for the first time.

    Raises:
        ValueError: As `read_keys`, or it has no keys, so that nobody could do anything.
    """
    stamp, content = file_stamp(path), read_keys(path)
    if not content.keys:
        raise ValueError(f"{path}: there are no keys")
    return KeyFile(path, content, stamp)


def file_stamp(path: str) -> tuple[int, int, int] | None:
    """Returns what changes with a file's content; None if it cannot be found."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_keys(path: str) -> KeySet:
    """Returns the keys of a YAML or JSON file; `keys: []` has none.

    Raises:
        ValueError: The file cannot be read, or something in it is wrong.
    """
    try:
        content: object = yaml.load(_text(path), _LOADER)  # noqa: S506
    except yaml.YAMLError as error:
        # YAML's own message quotes the line, which holds a key.
        raise ValueError(f"{path} is not valid YAML{line_of(error)}") from None
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply") from None
    if not isinstance(content, dict) or not content:
        raise ValueError(f"{path} must hold `keys:`, or `API key: tenant` lines")
    try:
        return keys_of(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def line_of(error: yaml.YAMLError) -> str:
    """Returns the line of an error, as the end of a message."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f", line {error.problem_mark.line + 1}"
    return ""


def _text(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error}") from error
    if len(text) > MOST_BYTES:
        raise ValueError(f"{path} is larger than {MOST_BYTES} bytes")
    return text
