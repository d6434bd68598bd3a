"""Reads small files of the system that may not exist."""

from pathlib import Path


def read_text(path: Path) -> str:
    """Returns the text of a file; empty if it cannot be read."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def read_number(path: Path) -> int | None:
    """Returns the number that is all of a file; None if it holds no number."""
    text = read_text(path).strip()
    return int(text) if text.isdecimal() else None


def read_table(path: Path) -> dict[str, int]:
    """Returns the numbers of a file of lines "name number", by their names."""
    found = {}
    for line in read_text(path).splitlines():
        name, _, value = line.partition(" ")
        if value.isdecimal():
            found[name] = int(value)
    return found
