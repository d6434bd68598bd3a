"""The secret of a user's processes: one file, which is nobody else's."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hookline_processes import local_secret
from hookline_processes.local_secret import local_secret_file


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders of a user: one for running programs, and one for temporary files."""
    found = [tmp_path / "run" / "hookline", tmp_path / "tmp" / "hookline-7"]
    for each in found:
        each.parent.mkdir()
    monkeypatch.setattr(local_secret, "_folders", lambda: iter(found))
    return found


def test_all_processes_of_a_user_find_the_same(folders: list[Path]) -> None:
    """
    Also if they start at the same time; only the user may enter, read and write.
    """
    with ThreadPoolExecutor(8) as pool:
        files = set(pool.map(lambda _: local_secret_file(), range(32)))

    assert files == {folders[0] / "secret"}
    (file,) = files
    assert len(file.read_text()) == 64
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [each.name for each in file.parent.iterdir()] == ["secret"]


def test_one_that_is_there_prevails(folders: list[Path]) -> None:
    """
    A process with another environment may have made it elsewhere.
    """
    folders[0].parent.rmdir()
    first = local_secret_file()
    folders[0].parent.mkdir()

    assert first == folders[1] / "secret"
    assert local_secret_file() == first


@pytest.mark.parametrize("what", ["mode", "link", "owner", "file", "linked file"])
def test_what_others_may_have_made_is_not_used(
    what: str, folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A folder or a file of another user, or that others may enter or read, or a link: the
    next folder is taken, and without one the message names them all.
    """
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (elsewhere / "secret").write_text("k" * 64)
    (elsewhere / "secret").chmod(0o600)
    for each in folders:
        if what == "link":
            each.symlink_to(elsewhere)
            continue
        each.mkdir(mode=0o755 if what == "mode" else 0o700)
        if what == "file":
            (each / "secret").write_text("known")
            (each / "secret").chmod(0o644)
        if what == "linked file":
            (each / "secret").symlink_to(elsewhere / "secret")
    if what == "owner":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    with pytest.raises(PermissionError) as raised:
        local_secret_file()

    assert all(str(each) in str(raised.value) for each in folders)
    folders[1].rename(tmp_path / "away")
    if what != "owner":
        assert local_secret_file() == folders[1] / "secret"
