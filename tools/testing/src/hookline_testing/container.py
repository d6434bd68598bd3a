"""Containers of Linux namespaces, for servers that are given as little as possible.

Their root file system is read-only; what is left to write is named by the test.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hookline_testing.server_process import Server, children_of, descendants_of
from hookline_testing.waiting import wait_until

_TOOLS = ("unshare", "setpriv", "mount", "env", "sh")
_START = """\
set -e
mount --make-rprivate /
mount --bind "$BOX" /mnt
{box}
mount -t tmpfs -o mode=1777,size={shm} tmpfs /dev/shm
{covers}
for each in /tmp /var/tmp /run /home; do
    if [ -d $each ]; then
        mount --rbind $each $each
        mount -o remount,bind,ro $each
    fi
done
mount -o remount,bind,ro /
{shm_end}
exec setpriv --reuid {uid} --regid {uid} --clear-groups env -i PATH="$PATH" {env} "$@"
"""
_KEEP = 'mkdir -p "$BOX.{n}"; mount --rbind "{path}" "$BOX.{n}"'
_COVER = 'mount -t tmpfs -o mode=755 tmpfs "{closed}"'
_SHOW = 'mkdir -p "{path}"; mount --rbind "$BOX.{n}" "{path}"'
_SEAL = 'mount -o remount,bind,ro "{closed}"'
BOX = Path("/mnt")
"""The folder that `TMPDIR` names, as the server sees it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What a server is given.

    Attributes:
        uid: Its user, who may have no entry.
        home: The variable; None for none.
        tmp: Size of a folder that `TMPDIR` names; empty for one that can take
            anything, None for none.
        shm: Size of /dev/shm; empty if it cannot be written.
        is_first: Whether it is the first process of a namespace of its own.
    """

    uid: int = 12345
    home: str | None = None
    tmp: str | None = ""
    shm: str = "64m"
    is_first: bool = False


@cache
def obstacle() -> str:
    """Returns why no containers can be made here; empty if they can."""
    missing = [each for each in _TOOLS if shutil.which(each) is None]
    if missing:
        return f"{missing[0]} is not installed"
    if os.geteuid() != 0:
        return "only root can run processes as other users"
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "mount", "--make-rprivate", "/"],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.strip() if done.returncode else ""


@contextmanager
def serving_in(
    container: Container, folder: Path, *argv: str
) -> Iterator[tuple[Server, Path]]:
    """Runs `hookline serve` in a container; kills it in the end if it runs.

    Args:
        container: What it is given.
        folder: An empty folder for the log, and for what `TMPDIR` names.
        argv: Arguments of the server.

    Yields:
        The server, which is ready, and the folder that it sees as `BOX`.
    """
    box, log = folder / "box", folder / "log"
    box.mkdir()
    box.chmod(0o1777)
    spaces = ["--pid", "--fork", "--kill-child", "--mount-proc"]
    command = [
        *("unshare", "--mount", *(spaces if container.is_first else [])),
        *("sh", "-c", _script(container), "sh"),
        *(sys.executable, "-m", "hookline_server", "serve", *argv),
    ]
    with (
        log.open("w") as errors,
        subprocess.Popen(  # noqa: S603 - the test names the arguments
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "BOX": str(box)},
        ) as process,
    ):
        server = Server(process, log)
        try:
            server.wait_until_ready()
            yield server, box
        finally:
            for each in descendants_of(process.pid) | {process.pid}:
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)


def end(server: Server, container: Container, number: int) -> int:
    """Signals the server, and returns its exit status when none of it is left."""
    pid = server.process.pid
    everybody = descendants_of(pid)
    [first] = children_of(pid) if container.is_first else {pid}
    os.kill(first, number)
    status = server.process.wait()
    wait_until(
        lambda: not any(Path(f"/proc/{each}").exists() for each in everybody),
        "a process of the server is left",
    )
    return status


def _script(container: Container) -> str:
    env = ["LANG=C.UTF-8", "OMP_NUM_THREADS=1"]
    if container.home is not None:
        env.append(f"HOME={container.home}")
    if container.tmp is not None:
        env.append(f"TMPDIR={BOX}")
    size = f"mount -t tmpfs -o mode=1777,size={container.tmp} tmpfs {BOX}"
    return _START.format(
        box=size if container.tmp else "",
        shm=container.shm or "64k",
        shm_end="" if container.shm else "mount -o remount,ro /dev/shm",
        covers="\n".join(_covers()),
        uid=container.uid,
        env=" ".join(env),
    )


def _covers() -> Iterator[str]:
    """Yields commands that let everybody reach the interpreter and the sources."""
    needed = {Path(sys.prefix), Path(sys.base_prefix), *map(Path, sys.path)}
    there = {each for each in needed if each.is_absolute() and each.is_dir()}
    hidden: dict[Path, list[Path]] = {}
    for path in sorted(there):
        if there.isdisjoint(path.parents) and (closed := _closed_above(path)):
            hidden.setdefault(closed, []).append(path)
    n = 0
    for closed, paths in hidden.items():
        numbered = list(enumerate(paths, n))
        n += len(paths)
        yield from (_KEEP.format(n=at, path=path) for at, path in numbered)
        yield _COVER.format(closed=closed)
        yield from (_SHOW.format(n=at, path=path) for at, path in numbered)
        yield _SEAL.format(closed=closed)


def _closed_above(path: Path) -> Path | None:
    """Returns the first folder on the way to a path that not everybody may pass."""
    above = reversed(path.parents)
    return next((each for each in above if not each.stat().st_mode & 0o001), None)
