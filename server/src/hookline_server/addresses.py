"""Reads where a server listens, and under which path clients find it."""

import re

from hookline.exceptions import ConfigError
from hookline_processes.addresses import read_host

_MODE = re.compile("0?o?[0-7]{3}")
_ROOT_PATH = re.compile(r"(?:/[\w.~-]+)+", re.ASCII)


def read_hosts(text: str) -> list[str]:
    """Reads hosts that are separated by commas; raises `AddressError`."""
    return [read_host(part.strip()) for part in text.split(",")]


def read_mode(text: str) -> int:
    """Reads permissions of a file; raises `ValueError` if they are none."""
    if _MODE.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not an octal mode such as 660")
    return int(text[-3:], base=8)


def check_root_path(path: str) -> None:
    """Raises `ConfigError` for what paths cannot begin with."""
    if path and not _ROOT_PATH.fullmatch(path):
        raise ConfigError("root-path", f"{path!r} is not a path such as /llm")
