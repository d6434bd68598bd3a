"""The observer process: `python -m hookline_observer.process`.

Its argument is the folder of the sockets. The owner sends `Begin`, and is sent `Begun`.
Once the owner has gone, the process hands what it has got to the loggers and ends.
"""

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Protocol, cast

import msgspec

from hookline.config import EngineConfig
from hookline.exceptions import ConfigError
from hookline.frontend.observation import Observers
from hookline.pages import PageRoute
from hookline.payloads import PageStats
from hookline_observer.call_marks import CallMarks, loggers_of
from hookline_observer.host import ObserverHost
from hookline_observer.merging import MergedNotices
from hookline_observer.messages import Alive, Begin, Begun
from hookline_observer.pages_address import pages_socket
from hookline_processes.forked_children import let_signals_end_children
from hookline_processes.owner import Owner, run_supervised
from hookline_registry import RegistryError

FLUSH_SECONDS = 5.0
SHUTDOWN_GRACE_SECONDS = 1.0
"""Time for the loggers once all front ends have had them flushed."""

HUNG_SECONDS = 60
"""Time without the interpreter after which the process is ended by the system."""


class ServedPages(Protocol):
    """The loggers' pages, served by this process."""

    @property
    def routes(self) -> tuple[PageRoute, ...]:
        """The pages."""
        ...

    @property
    def paths(self) -> tuple[str, ...]:
        """Their paths as loggers have registered them."""
        ...

    def stats(self) -> tuple[PageStats, ...]:
        """State of each logger's pages; thread-safe."""
        ...

    def close(self) -> None:
        """Ends them."""
        ...


ServePages = Callable[[Observers, str], ServedPages]
"""Serves the pages of loggers on a UNIX socket, which is given by its path."""


class NoPages:
    """Serves no pages."""

    routes: tuple[PageRoute, ...] = ()
    paths: tuple[str, ...] = ()

    def stats(self) -> tuple[PageStats, ...]:
        """Returns none."""
        return ()

    def close(self) -> None:
        """Does nothing."""


def main(owner: Owner, arguments: Sequence[str]) -> int:
    """Runs the process and returns its exit status."""
    folder, marks_file = Path(arguments[0]), int(arguments[1])
    if (message := owner.receive_bytes()) is None:
        return 0  # the owner has gone already
    begin = msgspec.msgpack.decode(message, type=Begin)
    let_signals_end_children()  # which plugins fork
    is_ending = threading.Event()
    owner.watch(partial(_end, owner, folder, is_ending))
    threading.Thread(target=_show_life, daemon=True).start()
    marks = CallMarks(marks_file, loggers_of(begin.config), begin.suspects)
    try:
        observers = Observers(_running(begin), around=marks.around, kept=folder)
        pages = _serve_pages(begin.pages)(observers, pages_socket(folder))
    except ConfigError as error:
        return _refuse(owner, Begun("config", error.option, error.detail))
    except RegistryError as error:
        return _refuse(owner, Begun("registry", "", str(error)))
    hooks = tuple(sorted(observers.hooks))
    alive = Alive(begin.incarnation, hooks, pages.routes, pages.paths, begin.left_out)
    merged = MergedNotices(
        observers,
        pages.stats,
        restarts=begin.incarnation - 1,
        left_out=begin.left_out,
        kept=folder / "front ends.kept",
    )
    host = ObserverHost(folder, begin.key, alive, observers, merged)
    owner.send_bytes(msgspec.msgpack.encode(Begun()))
    try:
        host.serve(is_ending.is_set)
    finally:
        pages.close()
        observers.close(SHUTDOWN_GRACE_SECONDS if host.is_left else FLUSH_SECONDS)
        host.close()
        _remove_if_orphaned(folder, owner)
    return 0


def _running(begin: Begin) -> EngineConfig:
    """Returns the configuration without the loggers that are not to run."""
    config, out = begin.config, {*begin.left_out, *begin.set_aside}
    observers = replace(
        config.observers,
        stat_loggers=_without(config.observers.stat_loggers, out),
        options={
            name: options
            for name, options in config.observers.options.items()
            if name not in out
        },
    )
    implied = _without(config.implied_loggers, out)
    return replace(config, observers=observers, implied_loggers=implied)


def _without(names: Sequence[str], out: Collection[str]) -> tuple[str, ...]:
    return tuple(each for each in names if each not in out)


def _serve_pages(path: str) -> ServePages:
    """Imports what serves the pages; the owner names it, since this knows no HTTP."""
    if not path:
        return lambda _observers, _socket: NoPages()
    return cast("ServePages", EntryPoint("pages", path, group="").load())


def _remove_if_orphaned(folder: Path, owner: Owner) -> None:
    """Removes the folder if the owner was killed, and had no time to.

    Its channel closes a moment before it is gone, so this is tried twice.
    """
    if os.getppid() != owner.pid:
        shutil.rmtree(folder, ignore_errors=True)


def _refuse(owner: Owner, begun: Begun) -> int:
    owner.send_bytes(msgspec.msgpack.encode(begun))
    return 1


def _end(owner: Owner, folder: Path, is_ending: threading.Event) -> None:
    """Has the process end; returns if a logger keeps it alive."""
    is_ending.set()
    _remove_if_orphaned(folder, owner)
    time.sleep(FLUSH_SECONDS + SHUTDOWN_GRACE_SECONDS)


def _show_life() -> None:
    """Has the system end this process when no thread gets the interpreter any more.

    Its owner cannot tell that from a slow logger; and if the owner has ended, too,
    nobody else would end it.
    """
    while True:
        signal.setitimer(signal.ITIMER_REAL, HUNG_SECONDS)
        time.sleep(HUNG_SECONDS / 10)


if __name__ == "__main__":
    sys.exit(run_supervised(main))
