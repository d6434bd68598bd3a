"""Reads small files of the system that may not exist."""

from pathlib import Path


def read_text(path: Path) -> str:
    """Returns the text of a file; empty if it cannot be read."""
    try:
        return path.read_text("utf-8")
    except OSError:
        return ""
