"""Pointers that Git leaves in place of files in its large-file storage (LFS)."""

from pathlib import Path

from hookline.model_description import LFS_POINTER

_MOST_BYTES = 1024
"""A pointer is shorter."""


def is_pointer(path: Path) -> bool:
    """Whether a file is a pointer; a file that cannot be read is none."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return False
        return path.read_bytes().startswith(LFS_POINTER.encode())
    except OSError:
        return False
