"""Folders for temporary files, and files without any folder."""

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

_USUAL = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - only tried


def temporary_parents() -> Iterator[Path]:
    """Yields folders for temporary files, best first, whether or not they are usable.

    The working directory, which Python takes in the end, is none of them; nor is what
    is not absolute.
    """
    named = (os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP"))
    for path in map(Path, dict.fromkeys((*named, *_USUAL))):
        if path.is_absolute():
            yield path


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


def make_private(folder: Path, *, others_may: int = 0) -> None:
    """Makes a folder of this user's own; without effect on one that is there.

    Args:
        folder: The folder, where others can perhaps make some, too.
        others_may: Bits of its mode that other users may have; it is made without.

    Raises:
        OSError: It cannot be made, or its place is taken by something else: a link,
            wherever it leads, or what others own or may enter.
    """
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(f"{folder} is not a folder of this user's own")
    if stat.S_IMODE(found.st_mode) & 0o077 & ~others_may:
        raise PermissionError(f"others may enter {folder}")


def is_folder(path: Path) -> bool:
    """Whether a path leads to a folder; False if that cannot be seen."""
    try:
        return path.is_dir()
    except OSError:
        return False


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
