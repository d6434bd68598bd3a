"""Keeps the working directory off the path from which Python imports.

Anybody may have filled it: it may be a model that was downloaded, or a shared folder.
Python puts it first for `-m` and `-c`, and has it for each entry of a variable such as
PYTHONPATH that is empty or relative. Only the module of an option may come from there,
while the option is resolved (`hookline_registry.loading`).

This imports nothing that Python has not imported at its own start.
"""
# ruff: noqa: PTH100, PTH112, PTH117 - nor does it import pathlib

import os
import sys

SAFE_PATH = "PYTHONSAFEPATH"
"""Has Python leave the working directory out, also where libraries start it."""

_SEARCHED = ("PYTHONPATH", "LD_LIBRARY_PATH", "PATH")
"""Variables with the folders of modules, libraries and programs."""


def leave_out_working_directory() -> list[str]:
    """Takes the working directory off the paths of this process and of its children.

    A command calls it before it imports anything else.

    Returns:
        Entries of PYTHONPATH that are relative to it, and hence left out as well.
    """
    value = os.environ.get("PYTHONPATH")
    entries = value.split(os.pathsep) if value else []
    relative = [each for each in entries if not os.path.isabs(each)]
    unnamed = {_absolute(each) for each in relative}.difference(entries)
    if not sys.flags.safe_path and sys.path[:1] in ([""], [_absolute("")]):
        del sys.path[0]
    sys.path[:] = [each for each in sys.path if not _is_in(unnamed, each)]
    safe = safe_environment(dict(os.environ))
    for name in os.environ.keys() - safe.keys():
        del os.environ[name]
    os.environ.update(safe)
    return [each for each in relative if each]


def safe_environment(variables: dict[str, str]) -> dict[str, str]:
    """Returns variables by which a process takes nothing from its working directory."""
    safe = {**variables, SAFE_PATH: "1"}
    for name in _SEARCHED:
        if name in safe:
            safe[name] = os.pathsep.join(
                each for each in safe[name].split(os.pathsep) if os.path.isabs(each)
            )
            if not safe[name]:  # an empty one can mean the working directory
                del safe[name]
    return safe


def _is_in(unnamed: set[str], entry: str) -> bool:
    """Whether an entry of the path is a folder that only its place has named.

    Other relative entries are marks of installers, which are no folders.
    """
    return entry in unnamed or (
        not os.path.isabs(entry) and os.path.isdir(entry or ".")
    )


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except FileNotFoundError:  # the working directory was removed
        return path
