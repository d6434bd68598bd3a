"""Virtual environments that have of Hookline only what a test installs."""

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable, Mapping
from pathlib import Path

_OURS = ("hookline", "_editable_impl_hookline", "__editable__")
"""How the names begin of what an installation of ours has among packages."""


class CleanEnvironment:
    """A virtual environment with the packages of others that this interpreter sees.

    Args:
        folder: Is made.

    Attributes:
        folder: The same.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder, with_pip=False, symlinks=True)

    def install(self, wheels: Iterable[Path]) -> None:
        """Installs wheels with pip, and nothing that they depend on.

        Packages of others come last on the path, and only once pip is done: it must not
        take them for installed.
        """
        self._pip("--no-deps", *map(str, wheels))
        self._show_others()

    def install_by_name(self, requirements: Iterable[str], wheels: Path) -> None:
        """Installs distributions, and what they need of ours, as from an index.

        Packages of others must be there in versions that fit, or pip fails.

        Args:
            requirements: What a user gives pip, such as `hookline[gpu]`.
            wheels: A folder of ours.
        """
        self._show_others()
        self._pip("--find-links", str(wheels), *requirements)

    def _pip(self, *arguments: str) -> None:
        python = self.command("python")
        pip = (sys.executable, "-m", "pip", "--python", python, "install")
        options = ["--quiet", "--no-index", "--disable-pip-version-check"]
        # Without the machine's own settings, which may name folders of wheels.
        call(
            [*pip, *options, *arguments],
            cwd=self.folder,
            environment={"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": ""},
        )

    def _show_others(self) -> None:
        site = sysconfig.get_path("purelib", "venv", {"base": str(self.folder)})
        others = "\n".join(map(str, self._packages_of_others()))
        (Path(site) / "others.pth").write_text(others, "utf-8")

    def command(self, name: str) -> Path:
        """Path of a command of the environment."""
        scripts = sysconfig.get_path("scripts", "venv", {"base": str(self.folder)})
        return Path(scripts) / name

    def run(self, command: str, *arguments: str, cwd: Path | None = None) -> str:
        """All that a command of the environment printed; it must succeed."""
        return call([self.command(command), *arguments], cwd=cwd or self.folder)

    def _packages_of_others(self) -> list[Path]:
        """Folders of links, so that not even the metadata of ours is seen.

        One for each folder on the path: parts of a namespace package may be in several.
        """
        folders: list[Path] = []
        for site in (Path(each) for each in sys.path if each.endswith("-packages")):
            folder = self.folder / f"others-{len(folders)}"
            folder.mkdir()
            for path in site.iterdir():
                if not path.name.startswith(_OURS):
                    (folder / path.name).symlink_to(path)
            folders.append(folder)
        return folders


def call(
    command: Iterable[str | Path],
    *,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Returns all that a command printed.

    Raises:
        AssertionError: It failed.
    """
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
    variables.pop("PYTHONPATH", None)
    done = subprocess.run(  # noqa: S603 - the test names the command
        list(command),
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env=variables,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
