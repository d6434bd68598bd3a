"""Orders to fork a process, and what makes the fork the process that was ordered."""

import ctypes
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Sequence
from fcntl import F_DUPFD_CLOEXEC, fcntl
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

PADDING = "-" * 4096
"""Last argument of what forks: its place is the longest command line of a fork."""
_LIMITS = sorted(
    {getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")}
)
_ARGUMENTS = slice(45, 47)
"""Where the command line is, in `/proc/…/stat` behind the name."""


class Order(NamedTuple):
    """A process to fork.

    Attributes:
        module: What it runs as its main module.
        options: Those of the interpreter, before `-m`.
        argv: Its arguments.
        folder: Its working directory.
        variables: Its environment.
        targets: Numbers of the descriptors that come with the order.
        group: Its process group; None for that of this process.
        blocked: Signals that wait in it.
        limits: Its limits of resources.
        processors: Those that it may run on.
    """

    module: str
    options: list[str]
    argv: list[str]
    folder: str
    variables: dict[str, str]
    targets: list[int]
    group: int | None
    blocked: list[int]
    limits: list[tuple[int, int]]
    processors: list[int]


def order_of_this_process(
    module: str,
    argv: Sequence[str],
    variables: dict[str, str],
    targets: Sequence[int],
    *,
    options: Sequence[str] = (),
    group: int | None = None,
) -> Order:
    """Returns an order for what this process would start now."""
    return Order(
        module,
        [*options],
        [*argv],
        str(Path.cwd()),
        variables,
        [*targets],
        group,
        [*signal.pthread_sigmask(signal.SIG_BLOCK, ())],
        [resource.getrlimit(each) for each in _LIMITS],
        [*os.sched_getaffinity(0)],
    )


def become(order: Order, descriptors: Sequence[int]) -> None:
    """Makes this process what a new one with this order is."""
    if order.group is not None:
        os.setpgid(0, order.group)
    for number, limit in zip(_LIMITS, order.limits, strict=True):
        if resource.getrlimit(number) != tuple(limit):
            resource.setrlimit(number, (limit[0], limit[1]))
    os.sched_setaffinity(0, order.processors)
    _take_descriptors(order.targets, descriptors)
    os.chdir(order.folder)
    for name in os.environ.keys() - order.variables.keys():
        del os.environ[name]
    os.environ.update(order.variables)
    paths = order.variables.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [each for each in paths if each and each not in sys.path]
    tempfile.tempdir = None  # found again, where TMPDIR says
    given = [*order.options, "-m", order.module, *order.argv]
    sys.orig_argv[:] = [sys.executable, *given]
    for each in order.options:
        name, is_set, value = each.partition("=")
        if is_set:
            sys._xoptions[name] = value  # noqa: SLF001 - as the interpreter does
    _show_command_line(sys.orig_argv)
    signal.pthread_sigmask(signal.SIG_SETMASK, order.blocked)


def run(order: Order) -> None:
    """Runs the module of an order, in the fork, as the interpreter runs it."""
    spec = find_spec(order.module)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find_spec(f"{order.module}.__main__")
    assert spec is not None
    assert spec.origin is not None
    sys.argv = [spec.origin, *order.argv]
    main = ModuleType("__main__")
    main.__spec__, main.__file__, main.__package__ = spec, spec.origin, spec.parent
    sys.modules["__main__"] = main
    SourceFileLoader("__main__", spec.origin).exec_module(main)


def _take_descriptors(targets: Sequence[int], descriptors: Sequence[int]) -> None:
    """Gives the descriptors the numbers that are asked for."""
    above = max(targets) + 1
    moved = [fcntl(each, F_DUPFD_CLOEXEC, above) for each in descriptors]
    for each in descriptors:
        os.close(each)
    for target, each in zip(targets, moved, strict=True):
        os.dup2(each, target)
        os.close(each)


def _show_command_line(words: Sequence[str]) -> None:
    """Writes over the command line, which others see in `/proc/…/cmdline`."""
    fields = Path("/proc/self/stat").read_text("latin-1").rpartition(") ")[2].split()
    start, end = map(int, fields[_ARGUMENTS])
    line = b"".join(os.fsencode(each) + b"\0" for each in words)
    room = end - start
    ctypes.memmove(start, line[: room - 1].ljust(room, b"\0"), room)
