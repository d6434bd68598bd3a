"""Has supervised processes be forks of one that has imported what they import."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from hookline_processes import supervised
from hookline_processes.import_path import SAFE_PATH
from hookline_processes.python import python_environment, start_python
from hookline_testing.fork_orders import order_of_this_process
from hookline_testing.forks import OF_TESTS, ForkedProcess, Forks

FORKED = {
    "hookline_cluster.engine_process",
    "hookline_cluster.machines.remote_engine_process",
    "hookline_observer.process",
    "hookline_process_engine.engine_process",
    "hookline_ranks.processes.rank_process",
    "hookline_server.api_servers.child",
}
"""Modules whose imports take long."""
_INTERPRETER = sys.executable
_LATE = {*OF_TESTS, SAFE_PATH, "PYTHONPATH"}
"""Variables that a fork may have otherwise than what it is a fork of."""


def fork_supervised(forks: Callable[[], Forks | None]) -> None:
    """Has these processes be forks, as long as this process lives.

    One whose environment differs is a new process: what was imported may have read it.

    Args:
        forks: Returns what forks; None if the next one is to be a new process.
    """
    setattr(supervised, "start_python", partial(_start, forks))  # noqa: B010 - a patch


def _start(
    find_forks: Callable[[], Forks | None],
    *arguments: object,
    environment: Mapping[str, str] | None = None,
    **options: Any,
) -> "subprocess.Popen[bytes] | ForkedProcess":
    words = ["-P", *map(str, arguments)]
    at = words.index("-m")
    variables = python_environment(environment)
    may_be_forked = words[at + 1] in FORKED and sys.executable == _INTERPRETER
    forks = find_forks() if may_be_forked else None
    if forks is not None and _is_late_enough(variables, forks.variables):
        with ExitStack() as opened:
            targets = _descriptors(opened, **options)
            order = order_of_this_process(
                words[at + 1],
                words[at + 2 :],
                variables,
                [*targets],
                options=words[:at],
                group=options.get("process_group"),
            )
            if (pid := forks.fork(order, [*targets.values()])) is not None:
                return ForkedProcess(pid)
    return start_python(*arguments, environment=environment, **options)


def _is_late_enough(variables: Mapping[str, str], other: Mapping[str, str]) -> bool:
    names = (variables.keys() | other.keys()) - _LATE
    if any(variables.get(each) != other.get(each) for each in names):
        return False
    paths = variables.get("PYTHONPATH", "").split(os.pathsep)
    customizing = (Path(each, "sitecustomize.py") for each in paths if each)
    first = next((each for each in customizing if each.exists()), None)
    ours = getattr(sys.modules.get("sitecustomize"), "__file__", None)
    return first is None or str(first) == ours  # Python runs it at its start


def _descriptors(
    opened: ExitStack,
    *,
    stdin: int = 0,
    stdout: int = 1,
    stderr: int = 2,
    pass_fds: tuple[int, ...] = (),
    **_: object,
) -> dict[int, int]:
    """Returns the descriptors of this process that a child has, by their numbers."""
    null = os.open(os.devnull, os.O_RDWR)
    opened.callback(os.close, null)
    standard = {0: stdin, 1: stdout, 2: stderr}
    return {
        **{
            number: null if each == subprocess.DEVNULL else each
            for number, each in standard.items()
        },
        **{each: each for each in pass_fds},
    }
