"""How many KV blocks fit: as told, or what the machine has left."""

from collections.abc import Callable, Sequence
from pathlib import Path

from hookline.config import CacheConfig, SchedulerConfig
from hookline.exceptions import ConfigError
from hookline.models.probe import LayerCache

SHARE_OF_FREE_MEMORY = 0.5
"""The rest is for activations of other steps, the front end and the page cache."""


def count_blocks(
    cache: CacheConfig,
    scheduler: SchedulerConfig,
    layers: Sequence[LayerCache],
    *,
    element_size: int,
    max_model_len: int,
    room: Callable[[], int],
) -> int:
    """Blocks in the pool.

    Given neither a number nor bytes, the pool gets the `room` that there is, but never
    more than all sequences at full length could use.

    Args:
        cache: What was asked for.
        scheduler: How many sequences there may be.
        layers: Each layer's cache.
        element_size: Bytes of a number of it.
        max_model_len: Of a sequence, in tokens.
        room: Bytes; runs the model's largest step, so that its activations have taken
            their memory.

    Raises:
        ConfigError: Not even one block fits.
    """
    if cache.num_kv_blocks is not None:
        return cache.num_kv_blocks
    block_bytes = bytes_of_blocks(1, cache, layers, element_size)
    if cache.kv_cache_memory is not None:
        blocks = cache.kv_cache_memory // block_bytes
    else:
        useful = scheduler.max_num_seqs * -(-max_model_len // cache.block_size)
        blocks = min(useful, room() // block_bytes)
    if blocks < 1:
        raise ConfigError(
            "kv-cache-memory",
            f"one KV block takes {block_bytes} bytes; there is no room",
        )
    return blocks


def bytes_of_blocks(
    count: int, cache: CacheConfig, layers: Sequence[LayerCache], element_size: int
) -> int:
    """What so many blocks take in all layers."""
    token = sum(layer.bytes_per_token(element_size) for layer in layers)
    return count * cache.block_size * token


def host_room() -> int:
    """Bytes of main memory for the pool."""
    return int(available_memory() * SHARE_OF_FREE_MEMORY)


def available_memory() -> int:
    """Bytes that this process may still take: the machine's, or its control group's."""
    free = _meminfo("MemAvailable")
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        most, taken = _number(limit), _number(used)
        if most is not None and taken is not None:
            free = min(free, max(0, most - taken))
    return free


def _meminfo(name: str) -> int:
    for line in Path("/proc/meminfo").read_text("ascii").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise ConfigError("kv-cache-memory", "give it: the free memory is not known here")


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text("ascii"))
    except (OSError, ValueError):
        return None
