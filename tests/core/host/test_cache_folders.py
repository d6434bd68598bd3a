"""Where caches are kept, whoever the process runs as and whatever can be written."""

import os
import stat
from pathlib import Path

import pytest

from hookline_host import cache_folders
from hookline_host.cache_folders import (
    VERSIONS_KEPT,
    check_writable,
    home_folder,
    keep_cache,
    settle_library_caches,
)

OWN = f"hookline-{os.geteuid()}"


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, a folder that is named, and one for temporary files."""
    for name in ("NUMBA_CACHE_DIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    for variable, name in (
        ("XDG_CACHE_HOME", "named"),
        ("HOME", "home"),
        ("TMPDIR", "temporary"),
    ):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / name))
    monkeypatch.setattr("hookline_host.folders._USUAL", ())
    return tmp_path


def obstruct(folder: Path) -> None:
    """Puts a file where a folder was: not even root can write into that."""
    folder.rmdir()
    folder.touch()


def test_the_first_place_that_can_be_written_is_taken(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A cache's own variable comes first, then XDG_CACHE_HOME, home and temporary files.
    """
    own = places / "own"
    own.mkdir()
    monkeypatch.setenv("OWN_CACHE", str(own))

    def found() -> Path | None:
        return keep_cache("kernels", given=("OWN_CACHE",)).folder

    assert found() == own / "hookline/kernels"
    (own / "hookline/kernels").rmdir()
    (own / "hookline").rmdir()
    obstruct(own)
    assert found() == places / "named/hookline/kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert found() == places / "home/.cache/hookline/kernels"
    monkeypatch.setenv("HOME", "/")
    assert found() == places / f"temporary/{OWN}/kernels"


def test_nothing_is_kept_where_nothing_can_be_written(places: Path) -> None:
    """
    Each place is named with the reason, in one line.
    """
    for name in ("named", "home", "temporary"):
        obstruct(places / name)

    kept = keep_cache("kernels")

    assert (kept.folder, kept.is_writable) == (None, False)
    assert str(kept) == (
        f"no folder ({places}/named/hookline: Not a directory; there is no home "
        f"folder; {places}/temporary/{OWN}: Not a directory)"
    )


@pytest.mark.parametrize("home", ["", "/", "/nonexistent", "home", "../home"])
def test_what_is_no_home_folder_is_passed_over(
    places: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    """
    Unset without an entry of the user, the root, missing, or relative.
    """
    monkeypatch.chdir(places)
    monkeypatch.setattr("os.getuid", lambda: 987_654)
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("XDG_CACHE_HOME", "named")

    kept = keep_cache("kernels")

    assert home_folder() is None
    assert kept.folder == places / f"temporary/{OWN}/kernels"
    assert kept.refusals == [
        "XDG_CACHE_HOME=named is not absolute",
        "there is no home folder",
    ]


def test_home_folder_that_everybody_can_write_is_none(places: Path) -> None:
    """
    Kernels are code: HOME=/tmp must not make others' files run.
    """
    (places / "home").chmod(0o777)

    assert home_folder() is None


@pytest.mark.parametrize("name", ["temporary", "named"])
@pytest.mark.parametrize("how", ["link", "another's", "open"])
def test_folder_of_others_is_not_used(
    places: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: str
) -> None:
    """
    Where everybody can make folders, one that is not this user's alone is refused.
    """
    parent = places / name
    parent.chmod(0o1777)
    if name == "temporary":
        obstruct(places / "named")
        monkeypatch.setenv("HOME", "/")
    taken = parent / (OWN if name == "temporary" else "hookline")
    if how == "link":
        (places / "elsewhere").mkdir(mode=0o700)
        taken.symlink_to(places / "elsewhere")
    else:
        taken.mkdir()
        taken.chmod(0o777 if how == "open" else 0o700)
    if how == "another's":
        monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
        if name == "temporary":
            taken.rename(parent / f"hookline-{os.geteuid()}")

    kept = keep_cache("kernels")

    assert kept.folder is None or parent not in kept.folder.parents
    assert any(str(parent) in each for each in kept.refusals)
    assert not (places / "elsewhere/kernels").exists()


def test_own_temporary_folder_is_private(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It has the user's id in its name and is made for the user alone; if it was removed,
    and made again by others, that is noticed.
    """
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/")

    kept = keep_cache("kernels", "v1")

    own = places / "temporary" / OWN
    assert kept.folder == own / "kernels/v1"
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    kept.check()
    own.chmod(0o777)
    with pytest.raises(OSError, match="others may enter"):
        kept.check()


def test_full_disk_is_passed_over(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A folder without room for the cache is none, though a small file fits.
    """
    monkeypatch.setattr(
        os, "statvfs", lambda _: os.statvfs_result((4096, 4096, 9, 9, *[9] * 6))
    )

    with pytest.raises(OSError, match="less than 16 MiB are free"):
        check_writable(places, 16 * 2**20)
    assert not keep_cache("kernels", room_bytes=2**20).is_writable


def test_what_can_only_be_read_is_told(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A cache that an image brings stays of use beside one that can be written.
    """
    image = places / "named/hookline/kernels/v1"
    image.mkdir(parents=True)
    check = check_writable

    def read_only(folder: Path, room_bytes: int) -> None:
        if folder == image:
            raise OSError(30, "Read-only file system")
        check(folder, room_bytes)

    monkeypatch.setattr(cache_folders, "check_writable", read_only)

    kept = keep_cache("kernels", "v1")

    assert kept.folder == places / "home/.cache/hookline/kernels/v1"
    assert kept.readable == [image]


def test_versions_unused_for_longest_are_removed(places: Path) -> None:
    """
    The folder does not grow with each version that was ever installed.
    """
    base = places / "named/hookline/kernels"
    for number in range(9):
        (base / str(number)).mkdir(parents=True)
        os.utime(base / str(number), (number, number))

    keep_cache("kernels", "0")

    assert {each.name for each in base.iterdir()} == {"0", "6", "7", "8"}
    assert VERSIONS_KEPT == 4


@pytest.mark.parametrize("home", ["/", "home"])
def test_libraries_caches_are_named_without_a_home_folder(
    places: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    """
    Triton and torch's compiler keep theirs where they like, or where they can.
    """
    monkeypatch.setenv("HOME", home if home == "/" else str(places / home))
    monkeypatch.setenv("TRITON_CACHE_DIR", "/mine")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")

    settle_library_caches()

    named = places / "named/hookline/inductor"
    found = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    assert found == (str(named) if home == "/" else None)
    assert os.environ["TRITON_CACHE_DIR"] == "/mine"
