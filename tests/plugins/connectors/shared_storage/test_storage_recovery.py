"""Storage that goes away, fills up, turns bad or is emptied, and comes again."""

import errno
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from hookline import LLM, SamplingParams
from hookline.config import CacheConfig, EngineConfig, ExecutorConfig
from hookline_kv_transfer import KVLayout, KVTransferConfig
from hookline_metrics.transfer_stats import transfers_of
from hookline_shared_storage import (
    BlockStore,
    DamagedError,
    SaveState,
    StorageOptions,
    save_state,
)

LAYOUT = KVLayout(
    fingerprint="ab" * 32,
    num_blocks=8,
    block_size=4,
    dtype="float32",
    block_bytes=(50, 50),
)
CONTENT = np.arange(100, dtype=np.uint8)
PARAMS = SamplingParams(max_tokens=4)


def block(number: int) -> bytes:
    return bytes([number]) * 32


def prompt(number: int) -> list[int]:
    """Five full blocks, and a token."""
    return [3 + number] * 21


def store_in(folder: Path) -> BlockStore:
    return BlockStore(StorageOptions(shared_storage_path=folder), LAYOUT)


def read(store: BlockStore, number: int) -> None:
    content = np.zeros(LAYOUT.total_bytes, np.uint8)
    store.read(block(number), content)
    np.testing.assert_array_equal(content, CONTENT)


def failing(number: int) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


GONE: dict[str, Callable[[Path], Path]] = {
    "the whole folder": lambda root: root,
    "the layout's": lambda root: root / LAYOUT.fingerprint,
    "the block's": lambda root: root / LAYOUT.fingerprint / block(1).hex()[:2],
}


@pytest.mark.parametrize("what", GONE)
@pytest.mark.parametrize("comes_back", [False, True])
def test_removed_folder_is_made_again(
    tmp_path: Path, what: str, *, comes_back: bool
) -> None:
    """Be it by us or by whoever has removed it; what is missing is missing."""
    root = tmp_path / "kv"
    store = store_in(root)
    store.write(block(1), CONTENT)
    gone = GONE[what](root)
    shutil.rmtree(gone)
    if comes_back:
        gone.mkdir()

    with pytest.raises(DamagedError, match="missing"):
        read(store, 1)
    assert store.write(block(1), CONTENT)

    read(store, 1)
    read(store_in(root), 1)
    made = store.path_of(block(1)).parent
    assert comes_back or made.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("what", ["the whole folder", "the layout's"])
def test_link_does_not_take_a_folders_place(tmp_path: Path, what: str) -> None:
    """Nothing is written through it, and nothing read."""
    root, other = tmp_path / "kv", tmp_path / "other"
    store = store_in(root)
    store.write(block(1), CONTENT)
    place = GONE[what](root)
    shutil.copytree(place, other)
    shutil.rmtree(place)
    place.symlink_to(other)

    with pytest.raises(OSError, match=r"link|not a folder"):
        store.write(block(2), CONTENT)
    with pytest.raises(DamagedError, match="unreadable"):
        read(store, 1)
    assert len(list(other.rglob("*.safetensors"))) == 1


def test_link_that_was_there_at_the_start_is_the_operators(tmp_path: Path) -> None:
    """As where a folder is on another disk."""
    (tmp_path / "disk").mkdir()
    root = tmp_path / "kv"
    root.symlink_to(tmp_path / "disk")
    store = store_in(root)
    shutil.rmtree(tmp_path / "disk" / LAYOUT.fingerprint)

    store.write(block(1), CONTENT)

    read(store, 1)


def test_folder_of_another_owner_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been put in the place of the one that was removed."""
    store = store_in(tmp_path / "kv")
    shutil.rmtree(tmp_path / "kv")
    monkeypatch.setattr(store._folder, "_owners", {os.geteuid() + 1})
    monkeypatch.setattr(store._folder, "_known", ())  # a number may come again

    with pytest.raises(PermissionError, match="another owner"):
        store.write(block(1), CONTENT)


def test_folder_of_others_is_not_made_again(tmp_path: Path) -> None:
    """It may be what a disk was mounted on, whose place must not be filled."""
    store = store_in(tmp_path / "kv")
    store._folder._is_ours = False
    shutil.rmtree(tmp_path / "kv")

    with pytest.raises(FileNotFoundError):
        store.write(block(1), CONTENT)
    assert not (tmp_path / "kv").exists()
    (tmp_path / "kv").mkdir()
    assert store.write(block(1), CONTENT)


def test_blocks_are_read_from_a_read_only_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their time of use cannot be noted there."""
    store = store_in(tmp_path)
    store.write(block(1), CONTENT)
    monkeypatch.setattr(os, "utime", failing(errno.EROFS))

    read(store, 1)


class Clock:
    """Stands still unless it is set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "disk_full"),
        (errno.EDQUOT, "disk_full"),
        (errno.EROFS, "read_only"),
        (errno.EACCES, "permission"),
        (errno.ENOENT, "folder_gone"),
        (errno.ESTALE, "stale_handle"),
        (errno.EIO, "io_error"),
        (errno.EBUSY, "os_error"),
    ],
)
def test_failed_save_has_a_reason(number: int, reason: str) -> None:
    """It is counted, and the next one is not tried at once, and counted, too."""
    clock = Clock()
    state = SaveState(Path("kv"), clock)

    state.failed(OSError(number, "x"))
    assert not state.may_try()

    assert not state.is_good
    assert state.take_incidents() == {reason: 1, "not_saved": 1}
    assert state.take_incidents() == {}


def test_pauses_grow_until_a_save_succeeds(caplog: pytest.LogCaptureFixture) -> None:
    """And a line is logged where something changes."""
    clock, pauses = Clock(), []
    state = SaveState(Path("kv"), clock)
    caplog.set_level(logging.INFO)

    for _ in range(7):
        state.failed(OSError(errno.ENOSPC, "full"))
        began = clock.now
        while not state.may_try():
            clock.now += 0.5
        pauses.append(clock.now - began)
    state.failed(OSError(errno.EIO, "bad"))
    for _ in range(3):
        state.succeeded()

    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert state.may_try()
    words = [record.getMessage() for record in caplog.records]
    assert [("disk_full" in one, "io_error" in one, "again" in one) for one in words]
    assert len(words) == 3
    assert "saved to kv again" in words[-1]


def test_emptied_store_has_nothing_and_goes_on(tmp_path: Path) -> None:
    """Also for another process; what was on its way is not written any more."""
    store, other = store_in(tmp_path), store_in(tmp_path)
    store.write(block(1), CONTENT)
    resets = store.num_resets

    store.empty()
    late = store.write(block(1), CONTENT, resets)

    assert not late
    assert not other.has(block(1))
    assert store.write(block(2), CONTENT, store.num_resets)
    assert other.write(block(3), CONTENT)
    read(other, 2)
    store.sweep()
    assert store.num_files == 2
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 2


def test_store_that_is_gone_can_be_emptied(tmp_path: Path) -> None:
    """There is nothing left to remove."""
    store = store_in(tmp_path / "kv")
    shutil.rmtree(tmp_path / "kv")

    store.empty()

    assert store.write(block(1), CONTENT, store.num_resets)


def llm_with(folder: Path) -> LLM:
    transfer = KVTransferConfig(
        kv_connector="shared_storage",
        kv_connector_extra_config={"shared_storage_path": str(folder)},
    )
    config = EngineConfig(
        cache=CacheConfig(block_size=4),
        executor=ExecutorConfig(name="simulated"),
        kv_transfer=transfer.section(),
    )
    return LLM.from_config(config)


def cached(llm: LLM, number: int) -> int:
    [output] = llm.generate([prompt(number)], PARAMS, use_tqdm=False)
    return output.cached_tokens


def test_engine_saves_again_after_its_folder_was_removed(tmp_path: Path) -> None:
    """Without any failure: another engine finds the blocks."""
    folder = tmp_path / "kv"
    with llm_with(folder) as llm:
        cached(llm, 1)
        folder.rename(tmp_path / "gone")  # at once, while it may be written to
        cached(llm, 2)
        failures = transfers_of(llm.front_end.engines[0].stats).failures

    assert failures == {}
    with llm_with(folder) as llm:
        assert cached(llm, 2) == 20


def test_engine_saves_again_after_the_disk_was_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failures are counted by reason, and requests are served meanwhile."""
    monkeypatch.setattr(save_state, "FIRST_PAUSE_SECONDS", 0.0)
    with monkeypatch.context() as full, llm_with(tmp_path) as llm:
        full.setattr(os, "replace", failing(errno.ENOSPC))
        failures: Mapping[str, Mapping[str, int]] = {}
        for number in count(10):
            cached(llm, number)
            failures = transfers_of(llm.front_end.engines[0].stats).failures
            if failures:
                break
        full.undo()
        cached(llm, 2)

    assert set(failures) == {"incident"}
    assert set(failures["incident"]) == {"disk_full"}
    with llm_with(tmp_path) as llm:
        assert cached(llm, 2) == 20


@pytest.mark.parametrize(("external", "expected"), [(None, 20), (False, 20), (True, 0)])
def test_shared_blocks_are_removed_only_if_that_is_asked_for(
    tmp_path: Path, external: bool | None, expected: int
) -> None:
    """A reset leaves what other engines share; afterwards saves go on."""
    with llm_with(tmp_path) as llm:
        cached(llm, 1)
    with llm_with(tmp_path) as llm:
        assert cached(llm, 1) == 20

        assert llm.reset_prefix_cache(reset_connector=external)

        assert cached(llm, 1) == expected
    with llm_with(tmp_path) as llm:
        assert cached(llm, 1) == 20
