"""Files with prompts: for their user only, and not written through a link."""

import os
import stat
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hookline_processes.private_files import make_private_folder, open_private


def write(path: Path, *, appends: bool = False) -> None:
    with open_private(path, appends=appends) as file:
        file.write(b"prompt")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("appends", [False, True])
def test_a_new_file_is_for_its_user(tmp_path: Path, *, appends: bool) -> None:
    """Whatever the umask allows to others."""
    path, before = tmp_path / "file", os.umask(0)
    try:
        write(path, appends=appends)
    finally:
        os.umask(before)

    assert (mode(path), path.read_bytes()) == (0o600, b"prompt")


def test_an_old_file_is_emptied_or_goes_on(tmp_path: Path) -> None:
    """One that is emptied is for its user from then on; the other keeps its mode."""
    emptied, longer = tmp_path / "emptied", tmp_path / "longer"
    for path in (emptied, longer):
        path.write_bytes(b"an old text; ")
        path.chmod(0o644)

    write(emptied)
    write(longer, appends=True)

    assert (mode(emptied), emptied.read_bytes()) == (0o600, b"prompt")
    assert (mode(longer), longer.read_bytes()) == (0o644, b"an old text; prompt")


LINKS: dict[str, Callable[[Path, Path], None]] = {
    "symbolic": lambda path, target: path.symlink_to(target),
    "hard": lambda path, target: path.hardlink_to(target),
    "to nothing": lambda path, target: path.symlink_to(target.with_name("new")),
    "to a device": lambda path, _: path.symlink_to("/dev/null"),
}


@pytest.mark.parametrize("appends", [False, True])
@pytest.mark.parametrize("kind", LINKS)
def test_nothing_is_written_through_a_link(
    tmp_path: Path, kind: str, *, appends: bool
) -> None:
    """What it leads to stays as it is, and nothing new comes to be there."""
    path, target = tmp_path / "file", tmp_path / "target"
    target.write_bytes(b"mine")
    target.chmod(0o644)
    LINKS[kind](path, target)

    with pytest.raises(OSError, match="link") as caught:
        write(path, appends=appends)

    assert "link" in (caught.value.strerror or "")
    assert (mode(target), target.read_bytes()) == (0o644, b"mine")
    assert not (tmp_path / "new").exists()


def test_a_file_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner would read what is written to it."""
    path, folder = tmp_path / "theirs", tmp_path / "folder"
    path.write_bytes(b"")
    folder.mkdir()
    own = os.geteuid()
    if own == 0:
        for each in (path, folder):
            os.chown(each, 12345, 12345)
    else:  # it only seems to be of somebody else, also where new files are made
        monkeypatch.setattr(os, "geteuid", lambda: own + 1)
        null = partial(Path.open, Path("/dev/null"))
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: null())

    with pytest.raises(OSError, match="belongs to another user"):
        write(path)
    with pytest.raises(OSError, match="belongs to another user"):
        make_private_folder(folder)


def test_file_systems_with_ids_of_their_own_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There, each new file seems to be of the same other user."""
    path, own = tmp_path / "file", os.geteuid()
    write(path)
    if own == 0:
        made = tempfile.TemporaryFile

        def make(**options: Any) -> Any:
            file = made(**options)
            os.fchown(file.fileno(), 12345, 12345)
            return file

        os.chown(path, 12345, 12345)
        monkeypatch.setattr(tempfile, "TemporaryFile", make)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: own + 1)

    write(path, appends=True)

    assert path.read_bytes() == b"promptprompt"


def test_devices_and_pipes_that_are_named_can_be_written_to(tmp_path: Path) -> None:
    """They keep nothing; /dev/stdout is a link of the system's own."""
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reading = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reading.start()

    for path in (Path("/dev/null"), Path("/dev/stdout"), pipe):
        write(path, appends=True)
    reading.join()

    assert read == [b"prompt"]


def test_a_folder_is_for_its_user(tmp_path: Path) -> None:
    """One that is a link, or that all may write to, is refused."""
    make_private_folder(tmp_path / "a" / "new")
    make_private_folder(tmp_path / "a" / "new")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)

    assert mode(tmp_path / "a" / "new") == 0o700
    for name, reason in (("link", "it is a link"), ("open", "all users may write")):
        with pytest.raises(OSError, match=reason):
            make_private_folder(tmp_path / name)
