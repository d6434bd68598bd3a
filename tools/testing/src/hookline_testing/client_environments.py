"""Installs public clients, each list of packages in an environment of its own.

Environments stay for later runs. Their folders are named by the hash of the list, and a
lock lets several test processes share them.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PIP = (
    *(sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"),
    *("--retries", "2", "--python"),
)
# The lists name all packages, so that pip has nothing to resolve.
_INSTALL = ("install", "--no-deps", "--only-binary", ":all:", "--no-compile")
_NPM_INSTALL = (
    *("ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error"),
    *("--fetch-retries", "1", "--fetch-retry-mintimeout", "2000"),
)
_NPM_LOCK = "package-lock.json"
_INSTALLED = "installed"


class NotInstalledError(Exception):
    """The packages could not be installed; the text is the installer's."""


class ClientEnvironments:
    """Environments below a folder.

    Args:
        folder: Need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._failures: dict[Path, NotInstalledError] = {}

    def install(self, packages: Path) -> Path:
        """Returns the folder in which packages are installed, perhaps just now.

        Args:
            packages: A list for pip, or a `package.json` beside its lock file.

        Raises:
            NotInstalledError: The installer failed, now or before, or npm is missing.
        """
        if packages in self._failures:
            raise self._failures[packages]
        try:
            return self._installed(packages)
        except NotInstalledError as error:
            self._failures[packages] = error
            raise

    def _installed(self, packages: Path) -> Path:
        is_node = packages.suffix == ".json"
        home = self._folder / packages.stem
        folder = home / _hash(packages)
        with _locked(home):
            if not (folder / _INSTALLED).exists():
                _empty(home)
                (_install_node if is_node else _install_python)(packages, folder)
                (folder / _INSTALLED).touch()
        return folder


def python_of(folder: Path) -> Path:
    """Returns the interpreter of an environment."""
    return folder / "bin" / "python"


def _hash(packages: Path) -> str:
    lock = packages.with_name(_NPM_LOCK)
    files = [packages, lock] if packages.suffix == ".json" else [packages]
    content = b"".join(file.read_bytes() for file in files)
    return hashlib.sha256(content + sys.version.encode()).hexdigest()[:16]


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _empty(home: Path) -> None:
    """Removes what is left of other lists, and of an installation cut short."""
    for old in home.iterdir():
        if old.is_dir():
            shutil.rmtree(old)


def _install_python(packages: Path, folder: Path) -> None:
    venv.create(folder, with_pip=False, symlinks=True)
    _run(*_PIP, str(python_of(folder)), *_INSTALL, "-r", str(packages))


def _install_node(packages: Path, folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalledError("npm is not installed")
    folder.mkdir()
    for file in (packages, packages.with_name(_NPM_LOCK)):
        shutil.copy(file, folder)
    _run(npm, *_NPM_INSTALL, "--prefix", str(folder))


def _run(*command: str) -> None:
    done = subprocess.run(  # noqa: S603 - the command is ours
        command,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise NotInstalledError(done.stdout)
