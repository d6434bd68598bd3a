"""Imports what servers import, and forks them: `python -m ….fork_server DESCRIPTOR`.

It has one thread, and makes nothing before it forks: no event loop, socket or pool. A
server is the child of its grandparent, the process of the tests, once the process in
between has ended. Processes that servers start are started as ever.
"""

import importlib
import json
import os
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hookline_server.cli import main

IMPORTED = (
    "hookline.frontend.starting",
    "hookline_cluster.cluster",
    "hookline_prometheus",
    "hookline_prometheus.exposition",
    "hookline_server.api_servers.parent",
    "hookline_server.cli.commands.banner",
    "hookline_server.cli.commands.serve",
    "hookline_server.cli.engine_starter",
    "hookline_server.texts.engine",
)
"""Modules that servers import after their start; each brings many others."""
MOST_BYTES = 1 << 16


class Order(NamedTuple):
    """A server to fork.

    Attributes:
        argv: Its arguments, behind `python -m hookline_server`.
        folder: Its working directory.
        variables: What its environment has beyond this process's.
    """

    argv: list[str]
    folder: str
    variables: dict[str, str]


def serve(control: socket.socket) -> list[str] | None:
    """Forks servers until the tests end.

    Returns:
        In a server its arguments; None here, in the end.
    """
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, MOST_BYTES, 2)
        if not data:
            return None
        order = Order(*json.loads(data))
        reading, writing = os.pipe()
        if not os.fork():
            if server := os.fork():
                os.write(writing, str(server).encode())
                os._exit(0)
            for each in (reading, writing):
                os.close(each)
            control.close()
            _become(order, descriptors)
            return order.argv
        for each in (writing, *descriptors):
            os.close(each)
        os.wait()
        control.send(os.read(reading, MOST_BYTES))
        os.close(reading)


def _become(order: Order, descriptors: Sequence[int]) -> None:
    """Makes this process what a new one with these outputs is."""
    for target, descriptor in enumerate(descriptors, 1):
        os.dup2(descriptor, target)
        os.close(descriptor)
    os.chdir(order.folder)
    os.environ.update(order.variables)
    paths = order.variables.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [each for each in paths if each and each not in sys.path]
    tempfile.tempdir = None  # found again, where TMPDIR says
    sys.argv = [str(_program()), *order.argv]
    sys.orig_argv[:] = [sys.executable, "-m", "hookline_server", *order.argv]


def _program() -> Path:
    return Path(sys.modules["hookline_server"].__path__[0]) / "__main__.py"


def _main() -> int:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    for name in IMPORTED:
        importlib.import_module(name)
    threads = len(list(Path("/proc/self/task").iterdir()))
    assert threads == 1, f"{threads} threads cannot be forked"
    return 0 if serve(control) is None else main()


if __name__ == "__main__":
    sys.exit(_main())
