"""Resets of the prefix cache with tiers below it, and a disk that goes away."""

from pathlib import Path

import pytest

from hookline import LLM, SamplingParams
from hookline.config import CacheConfig, EngineConfig, ExecutorConfig, ModelConfig
from hookline_kv_transfer import KVTransferConfig
from hookline_metrics.transfer_calls import reset_command, tiers_of
from hookline_metrics.transfer_stats import transfers_of
from hookline_testing.waiting import wait_until

PARAMS = SamplingParams(max_tokens=1)
SPILLED = 8
"""Blocks of three prompts, one of which came twice, that 12 blocks of memory spill."""


def llm_with(disk: Path | None, memory_blocks: int = 64) -> LLM:
    """A cache of hardly more than a prompt's blocks, each of 32 bytes."""
    extra: dict[str, object] = {"cpu_bytes_to_use": 32 * memory_blocks}
    if disk is not None:
        extra["disk"] = {"path": str(disk)}
    transfer = KVTransferConfig(
        kv_connector="cpu_offload", kv_connector_extra_config=extra
    )
    config = EngineConfig(
        model=ModelConfig(max_model_len=64),
        cache=CacheConfig(block_size=4, num_kv_blocks=16),
        executor=ExecutorConfig(name="simulated"),
        kv_transfer=transfer.section(),
    )
    return LLM.from_config(config)


def cached(llm: LLM, number: int) -> int:
    """How many of a prompt's 41 tokens are found."""
    prompt = [3 + number] * 41
    [output] = llm.generate([prompt], PARAMS, use_tqdm=False)
    return output.cached_tokens


def stored(folder: Path) -> int:
    return len(list(folder.glob("*/*/*.safetensors")))


@pytest.mark.parametrize("has_disk", [False, True])
@pytest.mark.parametrize(
    ("external", "outcome", "expected"),
    [(None, "reset", 0), (True, "reset", 0), (False, "kept", 40)],
)
def test_tiers_are_reset_or_reported(
    tmp_path: Path,
    external: bool | None,
    outcome: str,
    expected: int,
    *,
    has_disk: bool,
) -> None:
    """After a reset nothing is found in any tier that is not told as kept."""
    disk = tmp_path if has_disk else None
    with llm_with(disk, memory_blocks=12 if has_disk else 64) as llm:
        for number in (1, 2, 3):
            cached(llm, number)
        assert cached(llm, 2) == 40
        if has_disk:  # what is being written there cannot be found
            wait_until(lambda: stored(tmp_path) == SPILLED, "not on disk")
        command = reset_command(reset_running_requests=False, external=external)

        tiers = tiers_of(llm.call(command))
        found = [cached(llm, number) for number in (1, 2, 3)]
        again = cached(llm, 2)

    names = ("cpu", "disk") if has_disk else ("cpu",)
    assert tiers == {"device": "reset", **dict.fromkeys(names, outcome)}
    assert max(found) == expected
    assert again == 40  # they go on keeping blocks


def test_disk_is_written_to_again_after_its_folder_was_removed(tmp_path: Path) -> None:
    """Nothing fails, and requests are served."""
    disk = tmp_path / "disk"
    with llm_with(disk, memory_blocks=12) as llm:
        for number in (1, 2, 3, 4):
            cached(llm, number)
        disk.rename(tmp_path / "gone")  # at once, while it may be written to
        for number in (5, 6, 7, 8):
            cached(llm, number)
        failures = transfers_of(llm.front_end.engines[0].stats).failures

    assert failures == {}
    assert stored(disk) > 0
