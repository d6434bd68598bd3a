"""The folder of a layout's files, which comes again after somebody has removed it."""

import errno
import logging
import os
import shutil
import stat
import threading
import uuid
from pathlib import Path

from hookline_processes.private_files import make_private_folder

_log = logging.getLogger(__name__)

_REMOVED = ".removed"
"""End of the names of folders that were emptied and wait to be deleted."""


class LayoutFolder:
    """A folder below one that others may share.

    Whoever can put a link or a folder of their own in its place would get what is
    written and choose what is read. So after a change it is used only if it is no link
    and belongs to this user, or to the owner that it had at the start.

    Attributes:
        path: The folder.
    """

    def __init__(self, root: Path, name: str) -> None:
        """Creates both folders, as far as they are missing.

        Raises:
            OSError: A folder cannot be created, or is one that others could fill.
        """
        self._root = root
        self.path = root / name
        self._lock = threading.Lock()
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        make_private_folder(self.path)
        status = root.stat()
        self._is_ours = status.st_uid == os.geteuid()
        self._root_is_link = root.is_symlink()
        known = self.path.lstat()
        self._owners = {os.geteuid(), status.st_uid, known.st_uid}
        self._known = _identity(known)

    def check(self) -> None:
        """Checks that the folder is the known one, or may take its place.

        Raises:
            FileNotFoundError: It is gone.
            OSError: It must not be used, or cannot be reached.
        """
        status = os.lstat(self.path)
        if _identity(status) == self._known:
            return
        root = os.lstat(self._root)
        if stat.S_ISLNK(root.st_mode) and not self._root_is_link:
            raise OSError(errno.ELOOP, "is a link now", str(self._root))
        _check_kind(status, self.path)
        if not {self._root.stat().st_uid, status.st_uid} <= self._owners:
            raise PermissionError(errno.EPERM, "has another owner now", str(self.path))
        self._known = _identity(status)

    def restore(self) -> None:
        """Makes the folder again, and the one above if that was this user's.

        Folders further above are not made: they may be what a file system that is gone
        was mounted on.

        Raises:
            OSError: It cannot be made, or must not be used.
        """
        with self._lock:
            if self._is_ours:
                _make(self._root)
            if _make(self.path):
                _log.warning("the folder %s was gone and is made again", self.path)
            self.check()

    def remove(self) -> None:
        """Gives the folder another name at once, and leaves an empty one.

        `sweep` deletes the files. A folder that is gone has none.

        Raises:
            OSError: It cannot be renamed, or must not be used.
        """
        with self._lock:
            try:
                self.check()
            except FileNotFoundError:
                return
            name = f".{self.path.name}-{uuid.uuid4().hex}{_REMOVED}"
            self.path.rename(self._root / name)
            _make(self.path)
            self.check()

    def sweep(self) -> None:
        """Deletes files of removed folders; some may be left."""
        for each in self._root.glob(f".{self.path.name}-*{_REMOVED}"):
            shutil.rmtree(each, ignore_errors=True)


def _identity(status: os.stat_result) -> tuple[int, ...]:
    """Returns what tells a folder from others; numbers of removed ones come again."""
    return status.st_dev, status.st_ino, status.st_uid, stat.S_IFMT(status.st_mode)


def _check_kind(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "is not a folder", str(path))


def _make(path: Path) -> bool:
    """Makes a folder for this user only; returns False if it is there already."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True
