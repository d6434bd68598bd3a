"""A private folder for sockets, and its place when it was removed."""

import shutil
import stat
from pathlib import Path

import pytest

from hookline_host.folders import make_private
from hookline_processes.private_folder import private_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "hookline-12345678"


def test_a_folder_is_private_and_has_room_for_long_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the usual place has a long path, it is in /tmp."""
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setenv("TMPDIR", str(deep))

    made = private_folder("client-99999.ipc")

    assert made.parent == Path("/tmp")  # noqa: S108
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    made.rmdir()


def test_a_removed_folder_is_made_again(folder: Path) -> None:
    """As private as it was; one that is there stays as it is."""
    make_private(folder)
    (folder / "a").touch()
    make_private(folder)
    shutil.rmtree(folder)

    make_private(folder)

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("taken", ["link", "file", "open"])
def test_a_place_that_somebody_took_is_not_used(folder: Path, taken: str) -> None:
    """A link is not followed, and others could enter a folder that is not private."""
    if taken == "link":
        (folder.parent / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(folder.parent / "elsewhere")
    elif taken == "file":
        folder.touch(mode=0o600)
    else:
        folder.mkdir()
        folder.chmod(0o750)

    with pytest.raises(OSError, match=r"is not a folder|others may enter"):
        make_private(folder)


def test_a_folder_of_another_user_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who could read what is sent over its sockets."""
    folder.mkdir(mode=0o700)
    monkeypatch.setattr("os.geteuid", lambda: folder.stat().st_uid + 1)

    with pytest.raises(PermissionError):
        make_private(folder)
