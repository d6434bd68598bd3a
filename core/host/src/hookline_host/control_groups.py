"""The control groups (cgroups) that this process is in, versions 1 and 2.

Both may be mounted at once, each with some of the controllers. In a container, the
mount may show only the container's own part of the tree, and the process's path may be
named as the host sees it.
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from hookline_host.files import read_text

_KINDS = {"cgroup": 1, "cgroup2": 2}
_ESCAPE = re.compile(r"\\([0-7]{3})")


class ControlGroup(NamedTuple):
    """A group that this process is in, itself or by a group inside of it.

    Attributes:
        folder: Its files.
        version: 1 or 2, which name their files differently.
    """

    folder: Path
    version: int


def groups_of(controller: str, root: Path = Path("/")) -> tuple[ControlGroup, ...]:
    """Returns the groups of each mount from this process's own up to the mount's root.

    Args:
        controller: Such as `memory`; mounts of version 1 without it are left out.
        root: Folder that contains `proc`.
    """
    mounts = read_text(root / "proc/self/mountinfo")
    if not mounts:
        return tuple(_usual(controller, root))
    paths = dict(_paths(read_text(root / "proc/self/cgroup")))
    return tuple(
        ControlGroup(folder, version)
        for point, base, version, options in _mounts(mounts)
        if version == 2 or controller in options
        if (own := paths.get(controller if version == 1 else "")) is not None
        for folder in _upwards(root / point.lstrip("/"), base, own)
    )


def _usual(controller: str, root: Path) -> Iterator[ControlGroup]:
    """Yields what containers have at the usual place, if /proc tells nothing."""
    place = root / "sys/fs/cgroup"
    if (place / "cgroup.controllers").is_file():
        yield ControlGroup(place, 2)
    if (place / controller).is_dir():
        yield ControlGroup(place / controller, 1)


def _upwards(mounted: Path, base: str, own: str) -> Iterator[Path]:
    """Yields the folders of the own group and those above it, as far as mounted."""
    path = PurePosixPath(own)
    inner = path.relative_to(base) if path.is_relative_to(base) else path
    parts = [each for each in inner.parts if each != "/"]
    if ".." in parts:
        parts = []  # the own group is outside of what is mounted
    for depth in range(len(parts), -1, -1):
        folder = mounted.joinpath(*parts[:depth])
        if folder.is_dir():
            yield folder


def _paths(text: str) -> Iterator[tuple[str, str]]:
    """Yields (controller, path) of lines "number:controllers:path"."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for each in controllers.split(","):
            yield each, path


def _mounts(text: str) -> Iterator[tuple[str, str, int, set[str]]]:
    """Yields (mount point, root, version, options) of the mounted control groups."""
    for line in text.splitlines():
        place, _, system = line.partition(" - ")
        kind, _, options = system.split(" ", 2)
        if (version := _KINDS.get(kind)) is not None:
            _, _, _, base, point, *_ = place.split(" ")
            yield _unescaped(point), _unescaped(base), version, set(options.split(","))


def _unescaped(name: str) -> str:
    """Returns a path of mountinfo, which writes spaces as octal numbers."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), name)
