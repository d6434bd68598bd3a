"""What a server opens by default: one port on loopback, and a private folder."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hookline_testing.server_process import Server, serving

pytestmark = pytest.mark.hostile

TCP_LISTENS = "0A"
UNIX_LISTENS = 0x10000
LOOPBACK = "0100007F"
"""127.0.0.1 in /proc/net/tcp."""


def processes(pid: int) -> Iterator[int]:
    """A process and all its descendants."""
    yield pid
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            yield from processes(child)


def opened(server: Server) -> Iterator[tuple[Path, str]]:
    """All file descriptors of the server's processes, and what they are."""
    for pid in processes(server.process.pid):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # it has just been closed
                yield link, str(link.readlink())


def sockets(server: Server) -> set[str]:
    """Inodes of the sockets of all processes."""
    names = (name for _, name in opened(server))
    return {name[8:-1] for name in names if name.startswith("socket:[")}


def rows(table: str) -> list[list[str]]:
    lines = Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    return [line.split() for line in lines]


def listening_ports(server: Server) -> list[tuple[str, int]]:
    """Address and port of each listening TCP socket, and of each UDP socket."""
    inodes, found = sockets(server), []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for row in rows(table):
            host, _, port = row[1].partition(":")
            is_open = row[3] == TCP_LISTENS or table.startswith("udp")
            if is_open and row[9] in inodes:
                found.append((host, int(port, 16)))
    return found


def listening_paths(server: Server) -> list[str]:
    """Paths of the listening Unix sockets; abstract ones begin with @."""
    inodes = sockets(server)
    return [
        row[7] if len(row) > 7 else ""
        for row in rows("unix")
        if int(row[3], 16) & UNIX_LISTENS and row[6] in inodes
    ]


def written_files(server: Server) -> set[Path]:
    """Regular files with a name that a process can write to."""
    found = set()
    for link, name in opened(server):
        is_file = name.startswith("/") and not name.endswith(" (deleted)")
        if not is_file or not stat.S_ISREG(link.stat().st_mode):
            continue
        info = (link.parent.parent / "fdinfo" / link.name).read_text()
        flags = next(line for line in info.splitlines() if line.startswith("flags:"))
        if int(flags.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY:
            found.add(Path(name))
    return found


def test_a_server_opens_one_port_and_a_private_folder() -> None:
    """
    The API's port on loopback; sockets, and all files but the log, in a folder of mode
    0700.
    """
    with serving("--port", "0", "--num-kv-blocks", "256") as server:
        server.post("/v1/completions", {"model": "demo", "prompt": "a"})
        ports, paths = listening_ports(server), listening_paths(server)
        files = written_files(server) - {server.log}
        folders = {Path(path).parent for path in paths}
        modes = {stat.S_IMODE(folder.stat().st_mode) for folder in folders}
        owners = {folder.stat().st_uid for folder in folders}

    assert ports == [(LOOPBACK, server.port)]
    assert len(paths) == 2
    assert all(path.startswith("/") for path in paths)
    assert len(folders) == 1
    assert modes == {0o700}
    assert owners == {os.getuid()}
    rings = Path(tempfile.gettempdir()) / f"hookline-recordings-{os.geteuid()}"
    assert {file.parent for file in files} <= folders | {rings}


def test_a_server_that_ended_leaves_nothing_open() -> None:
    """
    The folder of the sockets is removed at the end.
    """
    with serving(
        "--port", "0", "--executor", "simulated", "--num-kv-blocks", "256"
    ) as server:
        folders = {Path(path).parent for path in listening_paths(server)}
        assert server.end() == 0

    assert folders
    assert not any(folder.exists() for folder in folders)
