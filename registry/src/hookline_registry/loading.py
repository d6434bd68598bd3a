"""Imports the objects of entry points; errors name the distribution and the cause."""

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import EntryPoint
from importlib.util import find_spec

from hookline_registry.discovery import InstalledPlugin
from hookline_registry.exceptions import BrokenPluginError
from hookline_registry.isolation import Failure, isolate


def import_plugin(plugin: InstalledPlugin) -> object:
    """Imports the object of the plugin's entry point.

    Raises:
        BrokenPluginError: It cannot be imported.
    """
    return import_value(plugin.name, plugin.value, source=plugin.source)


def import_value(name: str, value: str, *, source: str | None = None) -> object:
    """Imports `module` or `module:attribute` for the plugin of that name.

    Raises:
        BrokenPluginError: It cannot be imported.
    """
    outcome = isolate(lambda: EntryPoint(name, value, group="").load())
    if isinstance(outcome, Failure):
        raise BrokenPluginError(
            name, f"cannot import {value!r}: {outcome.summary}", distribution=source
        ) from outcome.error
    return outcome


@contextmanager
def in_working_directory(module: str) -> Iterator[None]:
    """Lets this thread import from the working directory, if only it has the module.

    It comes behind everything that is installed. Other threads do not see it, nor do
    processes that are started meanwhile.
    """
    top, _, _ = module.partition(".")
    if top in sys.modules or not top.isidentifier() or find_spec(top) is not None:
        yield
        return
    finder = _WorkingDirectory()
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _WorkingDirectory:
    """Finds the modules of the working directory, for the thread that makes it."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """Implements `importlib.abc.MetaPathFinder`."""
        del target
        if path is not None or threading.get_ident() != self._thread:
            return None
        return PathFinder.find_spec(name, [os.getcwd()])  # noqa: PTH109 - an entry
