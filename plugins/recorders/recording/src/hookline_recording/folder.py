"""The folder of rings and of what was saved of them; one for each user of a machine.

A ring whose engine lives is locked by it. One that is not was left by an engine that
was killed or failed.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hookline_host.folders import make_private, temporary_parents
from hookline_processes.private_files import open_private
from hookline_recording.reading import FRONT_END, RING, front_ends_of, read_header
from hookline_recording.schema import HEADER_BYTES, Header

OWNER_VARIABLE = "HOOKLINE_ENGINES_OWNER"
"""Names the process that owns the engines where that is no server with loggers."""
SAVED = ".rec"
_CHUNK = 1024 * 1024
_MOST_ZEROS = 1024
"""The last record may end in so many zeros."""
_UNFINISHED_SECONDS = 3600.0
"""A copy that nobody has written to for so long stays unfinished."""


def rings_folder() -> Path:
    """Makes the folder for this user alone, in the first place that can be written.

    Raises:
        OSError: There is none.
    """
    refused: OSError | None = None
    for parent in temporary_parents():
        folder = parent / f"hookline-recordings-{os.geteuid()}"
        try:
            make_private(folder)
        except OSError as error:
            refused = refused or error
            continue
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    raise refused or OSError("no folder for temporary files")


def ring_path(folder: Path, engine_index: int, pid: int, number: int) -> Path:
    """Returns the path of a ring; `number` tells those of one process apart."""
    more = f"-{number}" if number else ""
    return folder / f"engine-{engine_index}-{pid}{more}{RING}"


def is_live(ring: Path) -> bool:
    """Whether the engine that writes a ring lives."""
    try:
        descriptor = os.open(ring, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def find_rings(pid: int | None = None) -> list[tuple[Path, Header]]:
    """Returns the rings of this user, newest first; of one server or engine, if asked.

    Args:
        pid: Of an engine, or of the server that owns it.
    """
    found: list[tuple[float, Path, Header]] = []
    with suppress(OSError):
        for path in rings_folder().glob(f"*{RING}"):
            with suppress(OSError, ValueError):
                header = read_header(path)
                if pid is None or pid in (header.pid, header.owner_pid):
                    found.append((path.stat().st_mtime, path, header))
    return [(path, header) for _, path, header in sorted(found, reverse=True)]


def rings_of(owner_pid: int) -> list[tuple[Path, Header]]:
    """Returns the rings of the engines that a server owns, newest first."""
    found = find_rings(owner_pid)
    return [each for each in found if each[1].owner_pid == owner_pid]


def owner_of_engines(*, is_apart: bool) -> int:
    """Returns the process whose engines the loggers of this one hear of.

    Args:
        is_apart: Whether loggers have a process of their own, a child of the server's.
    """
    if told := os.environ.get(OWNER_VARIABLE):
        return int(told)
    return os.getppid() if is_apart else os.getpid()


def named(source: str | None) -> list[Path]:
    """Returns the recordings that a command's argument names.

    Args:
        source: A file; a process, whose rings it then is; or None for all rings of this
            user. Empty if there is none.
    """
    if source is not None and not source.isdecimal():
        return [Path(source)]
    return [ring for ring, _ in find_rings(None if source is None else int(source))]


def save(ring: Path, target: Path) -> None:
    """Copies a ring, whether its engine runs, hangs or has ended.

    What its front ends tell of requests is added.

    Raises:
        OSError: It cannot be read, or the copy cannot be written.
    """
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with ring.open("rb") as source, open_private(part) as copy:
            end = 0
            while chunk := source.read(_CHUNK):
                if content := len(chunk.rstrip(b"\0")):
                    end = copy.tell() + min(content + _MOST_ZEROS, len(chunk))
                    copy.write(chunk)
                else:
                    copy.seek(len(chunk), os.SEEK_CUR)  # it was never written
            copy.truncate(max(end, HEADER_BYTES))
            copy.seek(0, os.SEEK_END)
            for front_end in front_ends_of(ring):
                told = b""
                with suppress(OSError):  # it may end meanwhile
                    told = front_end.read_bytes()[HEADER_BYTES:].rstrip(b"\0")
                copy.write(told + bytes(_MOST_ZEROS))
        part.replace(target)
    except OSError:
        with suppress(OSError):
            part.unlink()
        raise


def save_in_folder(ring: Path, reason: str, keep: int | None) -> Path:
    """Saves a ring beside it under a name with time and reason.

    Args:
        ring: The ring.
        reason: In one word.
        keep: How many of the newest saved recordings stay; None removes none.

    Raises:
        OSError: It cannot be saved.
    """
    target = _target(ring, reason)
    save(ring, target)
    if keep is not None:
        prune(ring.parent, keep)
    return target


def retire(ring: Path, reason: str, keep: int) -> Path:
    """Saves a ring likewise whose engine is gone, and removes it.

    Where there is no room for a copy it is renamed, and lacks what front ends told.

    Raises:
        OSError: It cannot be saved, or somebody else does it now.
    """
    with _claimed(ring):
        try:
            target = save_in_folder(ring, reason, keep)
        except OSError:
            target = _target(ring, reason)
            os.utime(ring)
            ring.rename(target)
            prune(ring.parent, keep)
        else:
            ring.unlink(missing_ok=True)
    return target


def prune(folder: Path, keep: int) -> None:
    """Removes all but the newest saved recordings."""
    saved = sorted(folder.glob(f"*{SAVED}"), key=_age_order, reverse=True)
    for path in saved[keep:]:
        with suppress(OSError):
            path.unlink()


def keep_what_was_left(keep: int) -> None:
    """Makes rings of engines that are gone saved recordings, a few of them."""
    folder = rings_folder()
    for path in folder.glob(f"*{RING}"):
        with suppress(OSError):
            retire(path, "left", keep)
    needed = {each for ring, _ in find_rings() for each in front_ends_of(ring)}
    for path in folder.glob(f"*{FRONT_END}"):
        if path not in needed and not is_live(path):
            path.unlink(missing_ok=True)
    for path in folder.glob(f".*{SAVED}.*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _UNFINISHED_SECONDS:
                path.unlink()


@contextmanager
def _claimed(ring: Path) -> Iterator[None]:
    """Locks the ring of an engine that is gone, against others that find it, too.

    Raises:
        OSError: Its engine lives or makes it just now, or others have locked it.
    """
    descriptor = os.open(ring, os.O_RDWR | os.O_CLOEXEC)
    try:
        if not os.fstat(descriptor).st_size:  # its engine is about to lock it
            raise BlockingIOError(f"{ring} is being made")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _target(ring: Path, reason: str) -> Path:
    now = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    return ring.with_name(f"{now}-{ring.stem}-{reason}{SAVED}")


def _age_order(path: Path) -> tuple[float, str]:
    try:
        return path.stat().st_mtime, path.name
    except OSError:
        return 0.0, path.name
