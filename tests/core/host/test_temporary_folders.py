"""Folders for temporary files, where the usual ones cannot be written."""

import os
from pathlib import Path

import pytest

from hookline_host.folders import make_temporary, nameless_file, temporary_parents


def test_the_next_folder_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    What is named and cannot be written, and what does not fit, is passed over.
    """
    blocked, long, good = tmp_path / "file", tmp_path / "long", tmp_path / "good"
    blocked.touch()
    long.mkdir()
    good.mkdir()
    for name, path in (("TMPDIR", blocked), ("TEMP", long), ("TMP", good)):
        monkeypatch.setenv(name, str(path))

    found = make_temporary("hookline-", lambda parent: parent != long)

    assert found.parent == good
    assert found.stat().st_mode & 0o777 == 0o700


def test_the_working_directory_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Nothing is written where the server was started by chance.
    """
    monkeypatch.chdir(tmp_path)
    for name in ("TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TMPDIR", "here")

    assert Path("here") not in temporary_parents()
    assert tmp_path not in temporary_parents()


def test_an_error_names_all_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Somebody who reads it knows what to do.
    """
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("TMPDIR", str(file))
    monkeypatch.setattr("hookline_host.folders._USUAL", ())
    for name in ("TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(OSError, match=f"set TMPDIR to one: {file}: Not a directory"):
        make_temporary("hookline-")


def test_file_in_memory_needs_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    What children inherit is written where no folder is.
    """
    monkeypatch.setenv("TMPDIR", str(tmp_path / "gone"))

    with nameless_file("test") as file:
        file.write(b"abc")
        file.flush()

        assert os.pread(file.fileno(), 9, 0) == b"abc"
