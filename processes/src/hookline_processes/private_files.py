"""Files with prompts or secrets: for this user only, not written through a link."""

import errno
import os
import stat
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO

_FILE_MODE = 0o600
_FOLDER_MODE = 0o700
_FLAGS = os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY
_SYSTEM = (Path("/dev"), Path("/dev/fd"))
"""Folders with links of the system's own, such as /dev/stdout."""


def open_private(
    path: Path, *, appends: bool = False, is_buffered: bool = True
) -> BinaryIO:
    """Opens a file for writing, as `private_descriptor` does.

    Raises:
        OSError: It cannot be opened, is a link, or belongs to another user.
    """
    flags = os.O_WRONLY | (os.O_APPEND if appends else 0)
    descriptor = private_descriptor(path, flags)
    return open(descriptor, "wb", buffering=-1 if is_buffered else 0)  # noqa: PTH123 - a descriptor


def private_descriptor(path: Path, flags: int) -> int:
    """Opens a file for writing, and makes one that only this user may read.

    One that exists is emptied, and its mode changed likewise, unless `flags` have
    O_APPEND. A device or a pipe can be in its place.

    Args:
        path: Path of the file.
        flags: Flags of `os.open`.

    Raises:
        OSError: It cannot be opened, is a link, or belongs to another user.
    """
    if path.parent in _SYSTEM:
        return os.open(path, flags | _FLAGS, _FILE_MODE)
    with suppress(FileNotFoundError):  # a pipe of somebody else's would keep us waiting
        _check(path, os.lstat(path))
    descriptor = os.open(path, flags | _FLAGS | os.O_NOFOLLOW, _FILE_MODE)
    with ExitStack() as undoing:
        undoing.callback(os.close, descriptor)
        status = os.fstat(descriptor)
        _check(path, status)
        if stat.S_ISREG(status.st_mode) and not flags & os.O_APPEND:
            os.fchmod(descriptor, _FILE_MODE)
            os.ftruncate(descriptor, 0)
        undoing.pop_all()
    return descriptor


def make_private_folder(folder: Path) -> None:
    """Makes a folder that only this user may enter, or checks the one that exists.

    Raises:
        OSError: It cannot be made, is a link, belongs to another user, or everybody
            may write to it.
    """
    folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    status = os.lstat(folder)
    _check(folder, status)
    if status.st_mode & stat.S_IWOTH:
        raise _refused(errno.EPERM, "all users may write to it", folder)


def _check(path: Path, status: os.stat_result) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise _refused(errno.ELOOP, "it is a link, which is not followed", path)
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        raise _refused(errno.EMLINK, "it is a file with another name (a link)", path)
    if stat.S_ISCHR(status.st_mode) or status.st_uid in (0, os.geteuid()):
        return
    folder = path if stat.S_ISDIR(status.st_mode) else path.parent
    # Some file systems have other ids for all of their files.
    with suppress(OSError), tempfile.TemporaryFile(dir=folder) as own:
        if os.fstat(own.fileno()).st_uid == status.st_uid:
            return
    raise _refused(errno.EPERM, "it belongs to another user", path)


def _refused(number: int, reason: str, path: Path) -> OSError:
    return OSError(number, reason, str(path))
