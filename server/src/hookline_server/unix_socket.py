"""A listening socket in the file system, and its file from beginning to end."""

import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hookline_server.cli.errors import CommandFailedError
from hookline_server.listening import BACKLOG

LONGEST_PATH = 107
"""Bytes of a path that the kernel takes."""

_DEAD = (ConnectionRefusedError, FileNotFoundError)
_ASK_SECONDS = 1.0


@contextmanager
def unix_socket(path: str, mode: int) -> Iterator[socket.socket]:
    """Yields a listening socket with a file, which is removed at the end.

    A file that an earlier server has left is removed, but never one on which somebody
    listens, and nothing but a socket. The folder is locked meanwhile, so that of two
    servers that start together one gets the path.

    Args:
        path: The file; its folder exists.
        mode: Permissions of the file: whoever may write to it may connect.

    Raises:
        CommandFailedError: It cannot be made.
    """
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise _error(path, f"it is longer than {LONGEST_PATH} bytes")
    try:
        listening, made = _made(path, mode)
    except OSError as error:
        raise _error(path, error.strerror or str(error)) from error
    try:
        yield listening
    finally:
        listening.close()
        with suppress(OSError):
            if _identity(path) == made:  # else another server has replaced it
                Path(path).unlink()


def _made(path: str, mode: int) -> tuple[socket.socket, tuple[int, int]]:
    folder = os.open(Path(path).absolute().parent, os.O_RDONLY | os.O_DIRECTORY)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        _make_way(path)
        # The file has this mode from the start, less what the umask takes away.
        os.fchmod(listening.fileno(), mode)
        listening.bind(path)
        Path(path).chmod(mode)
        listening.listen(BACKLOG)
        listening.setblocking(False)
        return listening, _identity(path)
    except BaseException:
        listening.close()
        raise
    finally:
        os.close(folder)


def _make_way(path: str) -> None:
    """Removes what an earlier server has left."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise _error(path, "it exists, and is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(_ASK_SECONDS)
        try:
            asking.connect(path)
        except _DEAD:
            Path(path).unlink(missing_ok=True)
            return
        except OSError as error:
            # Such as a full queue: somebody listens.
            raise _error(path, f"it is in use: {error}") from error
    raise _error(path, "another process listens there")


def _identity(path: str) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino


def _error(path: str, why: str) -> CommandFailedError:
    return CommandFailedError(f"cannot listen on the socket {path}: {why}")
