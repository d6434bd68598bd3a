"""A second machine as far as the network goes: a namespace with a cable to this one."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

_FAR_END = "eth0"


class SecondMachine:
    """A network namespace; needs root and the command `ip`.

    Attributes:
        here: Address of this machine on the cable between the two.
    """

    def __init__(self) -> None:
        # Of this process alone: a test that was killed may have left others.
        number = os.getpid()
        self._name = f"hookline-{number}"
        self._cable = f"hk{number}"
        network = f"10.{200 + number % 50}.{number // 50 % 250}"
        self.here, self._there = f"{network}.1", f"{network}.2"
        _ip("netns", "add", self._name)

    def lay_cable(self) -> None:
        """Connects the two machines."""
        peer = ("peer", "name", _FAR_END, "netns", self._name)
        _ip("link", "add", self._cable, "type", "veth", *peer)
        _ip("addr", "add", f"{self.here}/30", "dev", self._cable)
        _ip("link", "set", self._cable, "up")
        _ip("-n", self._name, "addr", "add", f"{self._there}/30", "dev", _FAR_END)
        for device in (_FAR_END, "lo"):
            _ip("-n", self._name, "link", "set", device, "up")

    def remove(self) -> None:
        """Removes the machine and the cable."""
        with suppress(subprocess.CalledProcessError):
            _ip("link", "del", self._cable)
        _ip("netns", "del", self._name)

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
    try:
        made = SecondMachine()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr}")
    try:
        made.lay_cable()
        yield made
    finally:
        made.remove()


def _ip(*argv: str) -> None:
    command = [shutil.which("ip") or "ip", *argv]
    subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
