"""Folders of benchmarks are the user's own."""

import os
import stat
from pathlib import Path

import pytest
from bench_folders import own_folder


def test_a_folder_is_in_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the one that is named from the root, else in that of the home."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    at_home = own_folder("models")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    named = own_folder("models")

    assert at_home == tmp_path / "home" / ".cache/hookline/benchmarks/models"
    assert named == tmp_path / "cache" / "hookline/benchmarks/models"
    assert stat.S_IMODE(named.stat().st_mode) == 0o700


def test_a_folder_of_others_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever makes it first would supply the models."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = own_folder("models")
    folder.chmod(0o777)

    with pytest.raises(OSError, match="all users may write to it"):
        own_folder("models")
    if os.geteuid() == 0:
        folder.chmod(0o755)
        os.chown(folder, 12345, 12345)
        with pytest.raises(OSError, match="belongs to another user"):
            own_folder("models")


def test_no_benchmark_has_a_known_name_in_the_temporary_folder() -> None:
    """Anybody could make such a folder before."""
    folder = Path(__file__).parents[2] / "benchmarks"
    names = ("gettempdir", '"/tmp', "'/tmp")
    found = [
        path.name
        for path in folder.rglob("*.py")
        if any(name in path.read_text("utf-8") for name in names)
    ]

    assert found == []
