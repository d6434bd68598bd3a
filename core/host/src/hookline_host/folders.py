"""Folders for temporary files, and files without any folder."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

_USUAL = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - only tried


def temporary_parents() -> Iterator[Path]:
    """Yields folders for temporary files, best first, whether or not they are usable.

    The working directory, which Python takes in the end, is none of them; nor is what
    is not absolute.
    """
    named = (os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP"))
    for path in dict.fromkeys((*named, *_USUAL)):
        if os.path.isabs(path):
            yield Path(path)


def make_temporary(prefix: str, fits: Callable[[Path], bool] = lambda _: True) -> Path:
    """Makes a new folder that only this user may enter.

    Args:
        prefix: Begin of its name.
        fits: Whether a folder may be its parent; paths of sockets must be short.

    Raises:
        OSError: No place can be written.
    """
    refusals = []
    for parent in filter(fits, temporary_parents()):
        try:
            return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        except OSError as error:
            refusals.append(refusal(parent, error))
    raise OSError(
        "no folder for temporary files can be written; set TMPDIR to one: "
        f"{'; '.join(refusals)}"
    )


def refusal(folder: Path, error: OSError) -> str:
    """Returns in one clause why a folder is not used."""
    return f"{folder}: {error.strerror or error}"


def nameless_file(name: str) -> BinaryIO:
    """Opens a file in memory, to be inherited by children; its name is for people.

    Raises:
        OSError: There is no memory, or a system without such files has no place.
    """
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create(name), "w+b")
    return tempfile.TemporaryFile()
