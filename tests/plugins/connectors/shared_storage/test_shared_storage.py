"""The connector `shared_storage`: files, what may be wrong with them, and engines."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hookline import LLM, SamplingParams
from hookline.config import (
    CacheConfig,
    EngineConfig,
    ExecutorConfig,
    ModelConfig,
)
from hookline.exceptions import ConfigError
from hookline.frontend.async_engine import AsyncEngine
from hookline.outputs import RequestOutput
from hookline.stats.scheduler_stats import SchedulerStats
from hookline_kv_transfer import KVLayout, KVTransferConfig
from hookline_kv_transfer.blocks import Bytes
from hookline_metrics.transfer_stats import transfers_of
from hookline_shared_storage import (
    BlockStore,
    DamagedError,
    StorageOptions,
    scheduler_side,
    worker_side,
)
from hookline_testing import assert_conserved
from hookline_testing.essential import essential
from hookline_testing.oracle import Oracle
from hookline_testing.plugin_site import PluginSite
from hookline_testing.poisoned_model import NAN_TOKEN, poisoned_copy

LAYOUT = KVLayout(
    fingerprint="ab" * 32,
    num_blocks=8,
    block_size=4,
    dtype="float32",
    block_bytes=(50, 50),
)
HASH = bytes(range(32))
CONTENT = np.arange(100, dtype=np.uint8)
PROMPT = list(range(3, 24))


def store_in(folder: Path, max_bytes: int = 10**6) -> BlockStore:
    options = StorageOptions(shared_storage_path=folder, max_bytes=max_bytes)
    return BlockStore(options, LAYOUT)


def read(store: BlockStore, block_hash: bytes) -> Bytes:
    content = np.zeros(LAYOUT.total_bytes, np.uint8)
    store.read(block_hash, content)
    return content


def flip_last_bit(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "bit": (flip_last_bit, "corrupt"),
    "short": (lambda data: data[:-1], "truncated"),
    "long": (lambda data: data + b"x", "truncated"),
    "empty": (lambda _: b"", "truncated"),
    "header": (lambda data: data[:8] + b"[" + data[9:], "corrupt"),
    "other model": (lambda data: data.replace(b"ab" * 32, b"cd" * 32), "foreign"),
    "other dtype": (lambda data: data.replace(b"ab" * 32, b"cd" * 32)[:-1], "foreign"),
}


def test_block_survives_a_round_trip(tmp_path: Path) -> None:
    """Another process reads what one wrote; others' leave nothing but the file."""
    store_in(tmp_path).write(HASH, CONTENT)

    other = store_in(tmp_path)

    assert other.has(HASH)
    np.testing.assert_array_equal(read(other, HASH), CONTENT)
    assert not other.has(b"x" * 32)
    [file] = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", sorted(DAMAGES))
def test_damage_is_found(tmp_path: Path, damage: str) -> None:
    """It is reported with a reason, and the file is removed to be written again."""
    change, reason = DAMAGES[damage]
    store = store_in(tmp_path)
    store.write(HASH, CONTENT)
    path = store.path_of(HASH)
    path.write_bytes(change(path.read_bytes()))

    with pytest.raises(DamagedError) as caught:
        read(store, HASH)

    assert caught.value.reason == reason
    assert not store.has(HASH)


@pytest.mark.parametrize("kind", ["link", "open to all"])
def test_a_folder_that_others_could_fill_is_refused(tmp_path: Path, kind: str) -> None:
    """Its blocks would be taken for the engine's own."""
    folder = tmp_path / LAYOUT.fingerprint
    if kind == "link":
        folder.symlink_to(tmp_path)
    else:
        folder.mkdir()
        folder.chmod(0o777)

    with pytest.raises(OSError, match=r"it is a link|all users may write"):
        store_in(tmp_path)


def test_missing_block_is_reported(tmp_path: Path) -> None:
    """Another process may have removed it since the lookup."""
    with pytest.raises(DamagedError) as caught:
        read(store_in(tmp_path), HASH)

    assert caught.value.reason == "missing"


def test_block_under_anothers_name_is_foreign(tmp_path: Path) -> None:
    """A file contains its block's hash."""
    store = store_in(tmp_path)
    store.write(HASH, CONTENT)
    other = b"y" * 32
    store.path_of(other).parent.mkdir()
    store.path_of(HASH).rename(store.path_of(other))

    with pytest.raises(DamagedError) as caught:
        read(store, other)

    assert caught.value.reason == "foreign"


def test_least_recently_used_file_is_removed_first(tmp_path: Path) -> None:
    """Beyond its limit the folder loses the least recently read files."""
    store = store_in(tmp_path)
    hashes = [bytes([number]) * 32 for number in range(10)]
    for age, block_hash in enumerate(hashes):
        store.write(block_hash, CONTENT)
        os.utime(store.path_of(block_hash), (1000.0 + age, 1000.0 + age))
    size = store.path_of(hashes[0]).stat().st_size
    read(store, hashes[0])

    store_in(tmp_path, max_bytes=10 * size).shrink()
    all_fit = [store.has(each) for each in hashes]
    store_in(tmp_path, max_bytes=5 * size).shrink()

    assert all(all_fit)
    assert [number for number in range(10) if store.has(hashes[number])] == [0, 7, 8, 9]


def test_limit_is_looked_at_while_writing(tmp_path: Path) -> None:
    """However much is written, the folder stays about as large as it may be."""
    store = store_in(tmp_path, max_bytes=4000)

    for number in range(60):
        store.write(bytes([number]) * 32, CONTENT)

    sizes = [path.stat().st_size for path in tmp_path.rglob("*.safetensors")]
    assert 2000 < sum(sizes) <= 4400


def test_failed_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk the error is reported and no partial file is left."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    store = store_in(tmp_path)
    monkeypatch.setattr(os, "replace", full)

    with pytest.raises(OSError, match="No space"):
        store.write(HASH, CONTENT)

    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        ({}, "needs shared_storage_path"),
        ({"shared_storage_path": 3}, "needs shared_storage_path"),
        ({"shared_storage_path": "x", "path": "y"}, "no option 'path'"),
        ({"shared_storage_path": "x", "max_bytes": 0}, "must be at least 1"),
        ({"shared_storage_path": "x", "num_threads": True}, "must be a whole number"),
        ({"shared_storage_path": "x", "load_async": 1}, "true or false"),
    ],
)
def test_mistakes_are_one_line_errors(given: dict[str, object], detail: str) -> None:
    """Each in one line."""
    with pytest.raises(ConfigError, match=detail):
        StorageOptions.from_mapping(given)


@pytest.fixture
def site(tmp_path: Path) -> "PluginSite":
    folder = tmp_path / "site"
    folder.mkdir()
    return PluginSite(folder)


def config_of(site: PluginSite, folder: Path, **options: object) -> EngineConfig:
    """Of an engine with this folder."""
    if not (site._folder / "stored.py").exists():
        source = "from hookline_shared_storage import create_kv_connector\n"
        site.install("stored", source, group="hookline.connectors")
    return EngineConfig(
        cache=CacheConfig(block_size=4),
        executor=ExecutorConfig(name="simulated"),
        kv_transfer=KVTransferConfig(
            kv_connector="stored",
            kv_connector_extra_config={"shared_storage_path": str(folder), **options},
        ).section(),
    )


def run(
    site: PluginSite, folder: Path, **options: object
) -> tuple[list[int], SchedulerStats]:
    """The tokens of an engine with this folder, and its state."""
    config = config_of(site, folder, **options)
    with site, LLM.from_config(config) as llm:
        [output] = llm.generate([PROMPT], SamplingParams(max_tokens=4))
        assert_conserved(llm)
        return output.outputs[0].token_ids, llm.front_end.engines[0].stats


async def run_with(
    site: PluginSite,
    folder: Path,
    params: dict[str, object],
    *,
    meanwhile: Callable[[], None] | None = None,
    **options: object,
) -> tuple[RequestOutput, SchedulerStats]:
    """Likewise with a client's transfer parameters."""
    config = replace(config_of(site, folder, **options), in_process=True)
    with site:
        engine = await AsyncEngine.start(config)
        try:
            stream = await engine.submit(
                PROMPT,
                SamplingParams(max_tokens=4),
                kv_transfer_params=params,
                is_streamed=False,
            )
            if meanwhile is not None:
                await asyncio.sleep(0.1)
                meanwhile()
            output = await anext(stream)
        finally:
            await engine.close()
    return output, engine._front_end.engines[0].stats


@pytest.mark.parametrize("load_async", [False, True])
def test_engines_share_what_was_computed(
    site: PluginSite, tmp_path: Path, *, load_async: bool
) -> None:
    """The second one loads all but a token of the prompt."""
    first, saving = run(site, tmp_path / "kv", load_async=load_async)

    second, loading = run(site, tmp_path / "kv", load_async=load_async)

    assert first == second
    assert transfers_of(loading).hit_source == "disk"
    hits = [transfers_of(each).external_cache.hit_tokens for each in (saving, loading)]
    assert hits == [0, 20]
    assert transfers_of(loading).failures == {}
    assert transfers_of(saving).saved_bytes == 6 * 4 * 8  # one was filled by the output
    assert transfers_of(loading).loaded_bytes == 5 * 4 * 8


@pytest.mark.parametrize("load_async", essential([False, True], False))
@pytest.mark.parametrize(
    "damage",
    essential(sorted(DAMAGES), "bit", "header", "other model", "short", slow=DAMAGES),
)
def test_damaged_files_cost_no_token(
    site: PluginSite, tmp_path: Path, damage: str, *, load_async: bool
) -> None:
    """What lies before the damage is used; the rest is computed, and counted."""
    change, _ = DAMAGES[damage]
    folder = tmp_path / "kv"
    first, _ = run(site, folder, load_async=load_async)
    for path in list(folder.rglob("*.safetensors"))[::2]:
        data = path.read_bytes()
        fingerprint = path.parent.parent.name.encode()
        spoilt = change(data)
        if DAMAGES[damage][1] == "foreign":
            spoilt = change(data.replace(fingerprint, b"cd" * 32))
        path.write_bytes(spoilt)

    second, stats = run(site, folder, load_async=load_async)
    third, healed = run(site, folder, load_async=load_async)

    assert first == second == third
    [reason] = transfers_of(stats).failures["load"]
    assert reason == DAMAGES[damage][1]
    assert transfers_of(stats).external_cache.hit_tokens < 20
    assert (
        transfers_of(healed).external_cache.hit_tokens
        >= transfers_of(stats).external_cache.hit_tokens
    )


def test_spoilt_blocks_are_not_kept(
    site: PluginSite, tmp_path: Path, llama: Oracle
) -> None:
    """Those of a request whose logits are not finite; who computes them keeps them."""
    folder, shared = tmp_path / "kv", list(range(20, 28))
    model = ModelConfig(model=str(poisoned_copy(llama.folder, tmp_path / "model")))
    config = replace(config_of(site, folder), executor=ExecutorConfig(), model=model)
    params = SamplingParams(max_tokens=2, temperature=0.0)

    with site:
        with LLM.from_config(config) as llm:
            llm.generate([[*shared, NAN_TOKEN, 7, 8, 9]], params)
            [same] = llm.generate([[*shared, NAN_TOKEN, 7, 8, 9]], params)
            llm.generate([[7]], params)  # its steps tell the connector
            assert_conserved(llm)
        left = stored(folder)
        with LLM.from_config(config) as llm:
            [good] = llm.generate([[*shared, 11]], params)
            assert_conserved(llm)

    assert same.cached_tokens == good.cached_tokens == 0
    assert left == []
    assert len(stored(folder)) == len(shared) // 4


def test_full_disk_is_counted(
    site: PluginSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is saved, failures are counted, and the engine serves as before."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    first, _ = run(site, tmp_path / "other")
    monkeypatch.setattr(os, "replace", full)

    second, _ = run(site, tmp_path / "kv")

    assert first == second
    assert not list((tmp_path / "kv").rglob("*.safetensors"))


ASKS: dict[str, object] = {"do_remote_decode": True, "do_remote_prefill": False}


def promise(blocks: object) -> dict[str, object]:
    return {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "remote_num_blocks": blocks,
    }


def stored(folder: Path) -> list[Path]:
    """The files of blocks; each is renamed once it is complete."""
    return list(folder.rglob("*.safetensors"))


def remove_but(kept: int, folder: Path) -> None:
    """Of the blocks only the first ones are there."""
    files = stored(folder)
    for path in sorted(files, key=lambda each: each.stat().st_mtime_ns)[kept:]:
        path.unlink()


async def test_producer_announces_its_stored_blocks(
    site: PluginSite, tmp_path: Path
) -> None:
    """The client learns how many blocks of its prompt will be stored."""
    told, _ = await run_with(site, tmp_path, ASKS)
    untold, _ = await run_with(site, tmp_path, {"do_remote_decode": "yes"})

    assert told.kv_transfer_params == {**promise(5), "remote_num_cached_tokens": 0}
    assert untold.kv_transfer_params is None


async def test_evicted_files_are_not_announced(
    site: PluginSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine has it in memory, and will not store it again."""
    monkeypatch.setattr(scheduler_side, "_WRITING_SECONDS", 0.05)
    params = SamplingParams(max_tokens=4)
    told = []
    with site:
        engine = await AsyncEngine.start(
            replace(config_of(site, tmp_path / "kv"), in_process=True)
        )
        try:
            for num_stored in (5, 2):
                stream = await engine.submit(
                    PROMPT, params, kv_transfer_params=ASKS, is_streamed=False
                )
                told.append((await anext(stream)).kv_transfer_params)
                async with asyncio.timeout(60):
                    while len(stored(tmp_path / "kv")) < num_stored:  # noqa: ASYNC110 - files
                        await asyncio.sleep(0.01)
                await asyncio.sleep(0.1)  # they count as being written no longer
                remove_but(2, tmp_path / "kv")
        finally:
            await engine.close()

    assert told == [
        {**promise(number), "remote_num_cached_tokens": cached}
        for number, cached in ((5, 0), (2, 20))
    ]


async def test_promised_blocks_are_waited_for(site: PluginSite, tmp_path: Path) -> None:
    """They may be on their way into storage when their request comes."""
    first, _ = run(site, tmp_path / "kv")
    (tmp_path / "kv").rename(later := tmp_path / "later")

    def arrive() -> None:
        for path in filter(Path.is_file, list(later.rglob("*"))):
            place = tmp_path / "kv" / path.relative_to(later)
            place.parent.mkdir(parents=True, exist_ok=True)
            path.rename(place)  # whole, as a connector stores it

    output, stats = await run_with(site, tmp_path / "kv", promise(5), meanwhile=arrive)

    assert output.outputs[0].token_ids == first
    assert output.cached_tokens == 0
    assert transfers_of(stats).loaded_bytes == 5 * 4 * 8
    assert transfers_of(stats).external_cache.hit_tokens == 0
    assert transfers_of(stats).failures == {}


@pytest.mark.parametrize("blocks", [5, 10**9])
async def test_broken_promise_costs_no_token(
    site: PluginSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int
) -> None:
    """What is there in the end is used; the rest is computed, and counted."""
    monkeypatch.setattr(worker_side, "PROMISE_SECONDS", 0.05)
    first, _ = run(site, tmp_path)
    remove_but(2, tmp_path)

    output, stats = await run_with(site, tmp_path, promise(blocks))

    assert output.outputs[0].token_ids == first
    assert transfers_of(stats).failures == {"load": {"missing": 1}}
    assert transfers_of(stats).loaded_bytes == 2 * 4 * 8


@pytest.mark.parametrize("blocks", [-1, True, "5", None, 2.0])
async def test_invalid_announcements_are_ignored(
    site: PluginSite, tmp_path: Path, blocks: object
) -> None:
    """Clients choose these values."""
    output, stats = await run_with(site, tmp_path, promise(blocks))

    assert output.finished
    assert transfers_of(stats).loads == 0
    assert transfers_of(stats).failures == {}


async def test_steps_wait_for_no_promise(site: PluginSite, tmp_path: Path) -> None:
    """Where loads are synchronous, all requests would wait."""
    _, stats = await run_with(site, tmp_path, promise(5), load_async=False)

    assert transfers_of(stats).loads == 0
    assert transfers_of(stats).failures == {}
