"""A second machine as far as the network goes: a namespace with a cable to this one."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

_CABLE = "hkcable"
_FAR_END = "eth0"
HERE, THERE = "10.213.7.1", "10.213.7.2"
"""Addresses of this machine and of the second one, on the cable between them."""


class SecondMachine:
    """A network namespace; needs root and the command `ip`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def command(self, *argv: str) -> list[str]:
        """Returns the command line that runs a command there."""
        return ["ip", "netns", "exec", self._name, *argv]

    def cut(self) -> None:
        """Pulls the cable: what is sent is lost, and nobody is told."""
        _ip("-n", self._name, "link", "set", _FAR_END, "down")

    def mend(self) -> None:
        """Plugs the cable in again."""
        _ip("-n", self._name, "link", "set", _FAR_END, "up")


@contextmanager
def second_machine() -> Iterator[SecondMachine]:
    """Makes a second machine; skips the test where that is not allowed."""
    if os.geteuid() or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the command ip")
    name = f"hookline-{os.getpid()}"
    try:
        _ip("netns", "add", name)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr}")
    try:
        _lay_cable(name)
        yield SecondMachine(name)
    finally:
        with suppress(subprocess.CalledProcessError):
            _ip("link", "del", _CABLE)
        _ip("netns", "del", name)


def _lay_cable(name: str) -> None:
    peer = ("peer", "name", _FAR_END, "netns", name)
    _ip("link", "add", _CABLE, "type", "veth", *peer)
    _ip("addr", "add", f"{HERE}/30", "dev", _CABLE)
    _ip("link", "set", _CABLE, "up")
    _ip("-n", name, "addr", "add", f"{THERE}/30", "dev", _FAR_END)
    for device in (_FAR_END, "lo"):
        _ip("-n", name, "link", "set", device, "up")


def _ip(*argv: str) -> None:
    command = [shutil.which("ip") or "ip", *argv]
    subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
