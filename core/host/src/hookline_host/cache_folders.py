"""Folders of caches that this process can write, whoever it runs as.

A cache is kept in the first of these places that can be written and has room: the one
that is named for it, `XDG_CACHE_HOME`, `.cache` in the home folder, and a folder of
this user's own among the temporary ones. Without any, nothing is kept.

Caches hold code. A place that the environment names is trusted unless everybody can
write it; there, and among temporary folders, the folder must be this user's.
"""

import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from hookline_host.folders import is_folder, make_private, refusal, temporary_parents

_NAME = "hookline"
_FEWEST_FILES = 16
_READ = 0o055
"""Kernels are no secret."""
VERSIONS_KEPT = 4
_LIBRARIES = {"TRITON_CACHE_DIR": "triton", "TORCHINDUCTOR_CACHE_DIR": "inductor"}
Refuse = Callable[[str], None]


class CachePlace(NamedTuple):
    """Where caches may be kept.

    Attributes:
        base: Folder of Hookline's caches.
        is_open: Whether others can write the folder around it.
    """

    base: Path
    is_open: bool

    def make(self, name: str) -> Path:
        """Returns the folder of one cache, made if it is missing.

        Raises:
            OSError: It cannot be made, or belongs to somebody else.
        """
        if self.is_open:
            make_private(self.base, others_may=_READ)
        folder = self.base / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder


class KeptCache(NamedTuple):
    """The folder of one cache.

    Attributes:
        folder: The folder; None without any.
        is_writable: Whether it can be written and has room; else it can only be read.
        private: A folder around it that must be this user's own; None for none.
        refusals: Why better places are passed over, in one clause each.
        readable: Folders of this cache in better places, which can only be read.
    """

    folder: Path | None
    is_writable: bool = False
    private: Path | None = None
    refusals: Sequence[str] = ()
    readable: Sequence[Path] = ()

    def __str__(self) -> str:
        where = str(self.folder) if self.is_writable else "no folder"
        return f"{where} ({'; '.join(self.refusals)})" if self.refusals else where

    def check(self) -> None:
        """Raises `OSError` if it was removed, and somebody else has made it again."""
        if self.private is not None:
            make_private(self.private, others_may=_READ)


def keep_cache(
    name: str,
    version: str = "",
    *,
    given: tuple[str, ...] = (),
    room_bytes: int = 0,
) -> KeptCache:
    """Finds the folder of one cache, and makes it if it is missing.

    Args:
        name: Name of the cache.
        version: Of what its contents depend on; the versions unused for longest are
            removed.
        given: Variables that name a folder for this cache, before all other places.
        room_bytes: How much must be free.
    """
    part = f"{name}/{version}" if version else name
    refusals: list[str] = []
    readable: list[Path] = []
    for place in _places(given, refusals.append):
        try:
            folder = place.make(part)
            check_writable(folder, room_bytes)
        except OSError as error:
            refusals.append(refusal(place.base, error))
            if not place.is_open and is_folder(place.base / part):
                readable.append(place.base / part)
        else:
            if version:
                _remove_old_versions(folder)
            private = place.base if place.is_open else None
            return KeptCache(folder, True, private, refusals, readable)
    return KeptCache(next(iter(readable), None), refusals=refusals, readable=readable)


def _remove_old_versions(folder: Path) -> None:
    """Removes the folders beside this one that were not used for longest."""
    with suppress(OSError):  # others may remove them, too
        os.utime(folder)  # used now: the oldest is the one unused for longest
        others = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)
        for old in [path for path in others if path != folder][: 1 - VERSIONS_KEPT]:
            shutil.rmtree(old, ignore_errors=True)


def _places(given: tuple[str, ...], refuse: Refuse) -> Iterator[CachePlace]:
    """Yields where caches may be kept, best first; tells why an expected one is not."""
    for name in (*given, "XDG_CACHE_HOME"):
        if folder := os.environ.get(name):
            if (named := Path(folder)).is_absolute():
                yield CachePlace(named / _NAME, _is_open(named))
            else:
                refuse(f"{name}={folder} is not absolute")
    if (home := home_folder()) is not None:
        yield CachePlace(home / ".cache" / _NAME, is_open=False)
    else:
        refuse("there is no home folder")
    for parent in temporary_parents():
        yield CachePlace(parent / f"{_NAME}-{os.geteuid()}", is_open=True)


def home_folder() -> Path | None:
    """Returns the folder of `HOME`, else of the user's entry; None without one.

    The root folder is none: it is given to users without an entry. Nor is one that
    everybody can write.
    """
    named = os.environ.get("HOME", "")
    if not named:
        with suppress(KeyError):
            named = pwd.getpwuid(os.getuid()).pw_dir
    home = Path(named)
    if not home.is_absolute() or home == Path("/") or not is_folder(home):
        return None
    return None if _is_open(home) else home


def _is_open(folder: Path) -> bool:
    """Whether everybody can write a folder."""
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return False


def check_writable(folder: Path, room_bytes: int = 0) -> None:
    """Raises `OSError` if a folder takes no file, or its disk is full."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.write(b"-")
        file.flush()
    disk = os.statvfs(folder)
    if disk.f_bavail * disk.f_frsize < room_bytes:
        raise OSError(f"less than {room_bytes >> 20} MiB are free")
    if disk.f_files and disk.f_favail < _FEWEST_FILES:
        raise OSError("no more files fit")


def settle_library_caches() -> None:
    """Names folders for the caches of Triton and torch's compiler.

    Their own are in the home folder, and named for the user, without whom they fail.
    """
    home = home_folder()
    if home is not None and os.access(home, os.W_OK | os.X_OK):
        return
    for variable, name in _LIBRARIES.items():
        if variable not in os.environ:
            kept = keep_cache(name)
            if kept.is_writable:
                os.environ[variable] = str(kept.folder)
