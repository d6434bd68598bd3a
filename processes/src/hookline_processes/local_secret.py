"""A secret that all processes of one user on this machine share, and no other user has.

Other users reach whatever listens on loopback. Processes that nobody has given a secret
find this one in a folder that only their user may enter, whichever of them made it.
"""

import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FOLDER = "hookline"
_NAME = "secret"
_OTHERS = 0o077
"""Permissions of anybody but the owner."""


def local_secret_file() -> Path:
    """Returns the file with the secret, which is made if there is none.

    It lies in the user's folder for running programs, else in that for temporary files.

    Raises:
        PermissionError: No folder is the user's own; the message says why.
    """
    reasons: dict[str, None] = {}
    folders = list(_folders())
    for makes in (False, True):
        for folder in folders:
            try:
                with _opened(folder, makes=makes) as opened:
                    if makes:
                        _make(opened)
                    _check_file(opened)
                    return folder / _NAME
            except OSError as error:
                reasons[f"{folder}: {error.strerror or error}"] = None
    raise PermissionError("; ".join(reasons))


def _folders() -> Iterator[Path]:
    user = os.geteuid()
    if given := os.environ.get("XDG_RUNTIME_DIR"):
        yield Path(given) / _FOLDER
    yield Path(f"/run/user/{user}") / _FOLDER
    yield Path(tempfile.gettempdir()) / f"{_FOLDER}-{user}"


@contextmanager
def _opened(folder: Path, *, makes: bool) -> Iterator[int]:
    """Opens a folder that is the user's alone.

    Raises:
        OSError: There is none, it is a link, or others may enter it.
    """
    if makes:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _check_private(os.fstat(descriptor))
        yield descriptor
    finally:
        os.close(descriptor)


def _make(folder: int) -> None:
    """Makes the secret, unless another process has; whole or not at all."""
    name = f"{_NAME}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        os.write(descriptor, secrets.token_hex(32).encode())
        with suppress(FileExistsError):
            os.link(name, _NAME, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(descriptor)
        os.unlink(name, dir_fd=folder)


def _check_file(folder: int) -> None:
    """Raises `OSError` if there is no secret, or others may have read or written it."""
    found = os.stat(_NAME, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        raise PermissionError(f"{_NAME} is no regular file")
    _check_private(found)


def _check_private(found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise PermissionError("it belongs to another user")
    if found.st_mode & _OTHERS:
        raise PermissionError("other users may enter or read it")
