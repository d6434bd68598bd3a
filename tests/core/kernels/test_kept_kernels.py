"""Kernels are compiled whether or not they can be kept, and say so once."""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from numba.core import caching, types

from hookline_kernels import KernelError
from hookline_kernels.compile_farm import CompileFarm
from hookline_kernels.cpu import jit
from hookline_kernels.missing import KernelMissingError, OnlyCached, when_missing
from hookline_kernels.runtime.kernel_cache import writable_cache

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

SIGNATURE: Any = types.int64(types.int64)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache, in the only place there is."""
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("hookline_host.folders._USUAL", ())
    jit.kept_cache.cache_clear()
    jit._log_once.cache_clear()
    yield tmp_path
    jit.kept_cache.cache_clear()


def multiplying(number: int) -> Any:
    def multiply(value: int) -> int:
        return value * number

    return jit.compile_kernel(multiply, SIGNATURE, f"multiply-{number}")


def is_cached(number: int) -> bool:
    with when_missing(OnlyCached()):
        try:
            multiplying(number)
        except KernelMissingError:
            return False
    return True


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets no kernel be written from now on."""

    def save(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/somewhere/it.nbi")

    monkeypatch.setattr(caching.IndexDataCacheFile, "save", save)


def test_kernels_need_no_folder(cache: Path) -> None:
    """
    Where nothing can be written they are compiled all the same, and never found.
    """
    cache.rmdir()
    cache.touch()

    kernel = multiplying(2)

    assert kernel.cache_hits == 0
    assert not is_cached(2)
    with pytest.raises(KernelError, match=r"cannot be kept: .*home folder.*XDG_CACHE"):
        writable_cache()


def test_full_disk_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """
    A kernel that cannot be written is used as it is.
    """
    fill_disk(monkeypatch)

    kernels = [multiplying(3), multiplying(4)]

    assert [each.cache_hits for each in kernels] == [0, 0]
    assert caplog.text.count("compiled kernels are not kept: No space left") == 1


def test_farm_counts_what_it_compiles_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Its kernels are for another process: without a disk it asks for no more of them.
    """
    fill_disk(monkeypatch)
    ended: list[object] = []
    farm = CompileFarm(1, lambda *facts: ended.append(facts))

    with when_missing(farm):
        pending = multiplying(5)
        with pytest.raises(KernelError):
            pending.address  # noqa: B018 - waits for it
        with pytest.raises(KernelError, match="could not be kept"):
            multiplying(6)

    assert farm.not_kept == 1
    assert ended == []


def test_folder_that_was_removed_is_made_again(cache: Path) -> None:
    """
    Programs that clean up temporary files may remove it at any time.
    """
    multiplying(7)
    shutil.rmtree(cache / f"hookline-{os.geteuid()}")

    lost = is_cached(7)
    multiplying(7)

    assert not lost
    assert is_cached(7)


def test_folder_that_others_have_made_again_is_not_read(cache: Path) -> None:
    """
    Kernels are code: what somebody else has put there does not run.
    """
    multiplying(8)
    own = cache / f"hookline-{os.geteuid()}"
    own.chmod(0o777)

    assert not is_cached(8)
    assert multiplying(8).cache_hits == 0


def test_kernels_of_an_image_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A folder that can only be read brings its kernels, and new ones go elsewhere.
    """
    image = tmp_path / "image"
    image.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(image))
    multiplying(9)
    [folder] = (image / "hookline/kernels").iterdir()
    jit.kept_cache.cache_clear()

    def read_only(found: Path, _: int) -> None:
        if image in found.parents:
            raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("hookline_host.cache_folders.check_writable", read_only)
    before = sorted(folder.iterdir())

    found, other = multiplying(9), multiplying(10)

    assert (found.cache_hits, other.cache_hits) == (1, 0)
    assert sorted(folder.iterdir()) == before
    assert is_cached(10)
