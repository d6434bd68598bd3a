"""Environments of clients, from lists that need no network."""

from pathlib import Path

import pytest

from hookline_testing.client_environments import (
    ClientEnvironments,
    NotInstalledError,
    python_of,
)

MISSING = "--no-index\nhookline-no-such-package==1.0\n"


def listed(folder: Path, text: str) -> Path:
    packages = folder / "client.txt"
    packages.write_text(text, "utf-8")
    return packages


def test_a_list_is_installed_once(tmp_path: Path) -> None:
    """
    Another process finds what is there; another list takes its place.
    """
    packages = listed(tmp_path, "# none\n")
    first = ClientEnvironments(tmp_path / "all").install(packages)
    (first / "mark").touch()
    again = ClientEnvironments(tmp_path / "all").install(packages)
    is_kept = (again / "mark").exists()
    other = ClientEnvironments(tmp_path / "all").install(listed(tmp_path, "# other\n"))

    assert is_kept
    assert python_of(other).exists()
    assert not first.exists()


def test_failures_say_why_and_are_remembered(tmp_path: Path) -> None:
    """
    The error has the installer's words, also when it is asked again.
    """
    packages = listed(tmp_path, MISSING)
    environments = ClientEnvironments(tmp_path / "all")

    for _ in range(2):
        with pytest.raises(NotInstalledError, match="hookline-no-such-package"):
            environments.install(packages)
        packages.unlink(missing_ok=True)  # not read a second time
