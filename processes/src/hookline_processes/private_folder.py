"""A folder for sockets that only this user may enter, in the one for temporary files.

Programs that clean up there may remove it at any time. Whoever has a socket in it looks
now and then whether that is still there, and makes it again.
"""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

LOOK_SECONDS = 1.0
"""Time between two looks whether a socket is still there."""

_PREFIX = "hookline-"
_MOST_PATH_BYTES = 107
"""Length of a UNIX socket's path, on Linux."""


def private_folder(longest_name: str) -> Path:
    """Makes a folder with room for the paths of sockets.

    Args:
        longest_name: The longest name that a socket in it will have.
    """
    usual = Path(tempfile.gettempdir())
    longest = os.fsencode(usual / f"{_PREFIX}12345678" / longest_name)
    fits = len(longest) <= _MOST_PATH_BYTES
    return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=usual if fits else "/tmp"))  # noqa: S108


def make_folder_again(folder: Path) -> None:
    """Makes a private folder that was removed; without effect on one that is there.

    Raises:
        OSError: It cannot be made, or its place is taken by something that is not a
            folder which only this user may enter.
    """
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    found = folder.lstat()  # a link is none, wherever it leads
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    if not is_ours or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(f"{folder} is not a folder that only this user may enter")
