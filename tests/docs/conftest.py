"""What readers of the docs do with an example: build it, install it, run it."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_OURS = (
    "",
    "core/kernels",
    "core/models",
    "processes",
    "registry",
    "models/demo",
    "plugins/executors/simulated",
)
"""Folders of the distributions that examples are installed beside."""


class Installed:
    """An example in an environment of its own, beside Hookline and the demo model.

    Attributes:
        folder: Of the environment.
        project: Where the example's files are.
    """

    def __init__(self, folder: Path, project: Path) -> None:
        self.folder, self.project = folder, project

    def run(self, command: str, *arguments: str, cwd: Path | None = None) -> str:
        """All that a command of the environment printed; it must succeed."""
        return _call(_command(self.folder, command), *arguments, cwd=cwd or self.folder)


@pytest.fixture
def install_example(tmp_path: Path) -> Callable[[Mapping[str, str]], Installed]:
    """Builds wheels and installs them; takes the example's files by name."""

    def install(files: Mapping[str, str]) -> Installed:
        project, wheels = tmp_path / "project", tmp_path / "wheels"
        project.mkdir()
        wheels.mkdir()
        for name, source in files.items():
            (project / name).write_text(source, "utf-8")
        for source_folder in (*(ROOT / each for each in _OURS), project):
            hatch = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
            _call(*hatch, "-d", wheels, cwd=source_folder)
        _install(tmp_path / "venv", sorted(wheels.glob("*.whl")))
        return Installed(tmp_path / "venv", project)

    return install


@pytest.fixture
def files_of() -> Callable[[str], dict[str, str]]:
    """The files of a page: names in a line of their own, each before its block."""

    def find(page: str) -> dict[str, str]:
        text = (ROOT / "docs" / page).read_text("utf-8")
        block = r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```$"
        return dict(re.findall(block, text, flags=re.MULTILINE | re.DOTALL))

    return find


def _install(folder: Path, wheels: list[Path]) -> None:
    """Makes a virtual environment with these.

    What they depend on is seen through the running interpreter's packages, which come
    last on the path, and only once pip is done: it must not take them for installed.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    pip = [sys.executable, "-m", "pip", "--python", str(_command(folder, "python"))]
    options = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    _call(*pip, "install", *options, *wheels, cwd=folder)
    outer = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site / "outer.pth").write_text("\n".join(sorted(outer)), "utf-8")


def _command(folder: Path, name: str) -> Path:
    return Path(sysconfig.get_path("scripts", "venv", {"base": str(folder)})) / name


def _call(*command: str | Path, cwd: Path) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        list(command),
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env=environment,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
