"""A folder for sockets that only this user may enter, in the one for temporary files.

Programs that clean up there may remove it at any time. Whoever has a socket in it looks
now and then whether that is still there, and makes it again.
"""

import os
from pathlib import Path

from hookline_host.folders import make_temporary

LOOK_SECONDS = 1.0
"""Time between two looks whether a socket is still there."""

_PREFIX = "hookline-"
_MOST_PATH_BYTES = 107
"""Length of a UNIX socket's path, on Linux."""


def private_folder(longest_name: str) -> Path:
    """Makes a folder with room for the paths of sockets.

    Args:
        longest_name: The longest name that a socket in it will have.

    Raises:
        OSError: No place can be written.
    """

    def fits(parent: Path) -> bool:
        longest = os.fsencode(parent / f"{_PREFIX}12345678" / longest_name)
        return len(longest) <= _MOST_PATH_BYTES

    return make_temporary(_PREFIX, fits)
