"""Starts processes of this Python, which import nothing of the working directory."""

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from hookline_processes.import_path import safe_environment


def python_command(*arguments: object) -> list[str]:
    """Returns the command that runs this Python with these arguments."""
    return [sys.executable, "-P", *map(str, arguments)]


def python_environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the variables of such a process; None stands for those of this one."""
    return safe_environment(dict(os.environ if variables is None else variables))


def start_python(
    *arguments: object, environment: Mapping[str, str] | None = None, **options: Any
) -> "subprocess.Popen[bytes]":
    """Starts a process of this Python.

    Args:
        arguments: Its arguments, such as `-m` and a module.
        environment: Its variables; None for those of this process.
        options: Further ones of `subprocess.Popen`.

    Raises:
        OSError: It cannot be started.
    """
    return subprocess.Popen(  # noqa: S603 - no input of anyone else
        python_command(*arguments), env=python_environment(environment), **options
    )
