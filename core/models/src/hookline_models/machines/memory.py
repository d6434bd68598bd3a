"""Computes how many KV blocks fit, from the configuration or the free memory."""

from collections.abc import Callable, Sequence

import torch

from hookline.config.cache import CacheConfig
from hookline.config.scheduler import SchedulerConfig
from hookline.engine.decoder.layer_shapes import LayerCache
from hookline.engine.worker.runner_maker import RunnerMaker
from hookline.exceptions import ConfigError
from hookline.startup_timer import StartupTimer
from hookline_host.memory import available_memory

SHARE_OF_FREE_MEMORY = 0.5
"""The rest is for activations, the front end and the page cache."""


def blocks_that_fit(
    maker: RunnerMaker, timer: StartupTimer, room: Callable[[RunnerMaker], int]
) -> int:
    """Returns how many KV blocks fit beside a loaded model.

    Args:
        maker: Makes the model's runners.
        timer: Measures how long `room` takes.
        room: Returns the bytes that are free for the pool. It is called unless the
            configuration fixes the number of blocks or their memory.

    Raises:
        ConfigError: Not even one block fits.
    """
    model, own = maker.model, maker.extensions.own_layers

    def measured() -> int:
        with timer.phase("profile memory"):
            return room(maker)

    return count_blocks(
        maker.config.cache,
        maker.config.scheduler,
        [*model.layers, *(layer for each in own for layer in each.layers)],
        dtype=model.cache_dtype,
        max_model_len=model.shape.max_model_len,
        room=measured,
    )


def count_blocks(
    cache: CacheConfig,
    scheduler: SchedulerConfig,
    layers: Sequence[LayerCache],
    *,
    dtype: torch.dtype,
    max_model_len: int,
    room: Callable[[], int],
) -> int:
    """Returns the number of KV blocks in the pool.

    Without a configured number or size the pool takes all of `room`, but no more than
    all sequences at full length could use. An engine that starts beside others has as
    many blocks as they.

    Args:
        cache: The configured size of the pool.
        scheduler: The maximum number of sequences.
        layers: Shape of each layer's KV cache.
        dtype: Data type of the cache.
        max_model_len: Context length in tokens.
        room: Returns the bytes that are free for the pool; called only if no size is
            configured.

    Raises:
        ConfigError: Not even one block fits, or not as many as the others have.
    """
    if cache.sibling_blocks is not None:
        needed = bytes_of_blocks(cache.sibling_blocks, cache, layers, dtype)
        if needed > (free := _free_memory()):
            raise ConfigError(
                "kv-cache-memory",
                f"{cache.sibling_blocks} KV blocks, as many as other engines have, "
                f"take {needed} bytes, and {free} are free",
            )
        return cache.sibling_blocks
    if cache.num_kv_blocks is not None:
        return cache.num_kv_blocks
    block_bytes = bytes_of_blocks(1, cache, layers, dtype)
    if cache.kv_cache_memory is not None:
        blocks = cache.kv_cache_memory // block_bytes
    else:
        useful = scheduler.max_num_seqs * -(-max_model_len // cache.block_size)
        blocks = min(useful, room() // block_bytes)
    if blocks < 1:
        raise ConfigError(
            "kv-cache-memory",
            f"one KV block takes {block_bytes} bytes, more than there are",
        )
    return blocks


def bytes_of_blocks(
    count: int, cache: CacheConfig, layers: Sequence[LayerCache], dtype: torch.dtype
) -> int:
    """Returns the size of `count` blocks in all layers, in bytes."""
    return count * sum(
        layer.bytes_per_block(cache.block_size, dtype) for layer in layers
    )


def host_room(engines: int = 1) -> int:
    """Returns the bytes of main memory that the pool of one of the engines may take."""
    return int(_free_memory() * SHARE_OF_FREE_MEMORY) // engines


def _free_memory() -> int:
    """Returns the bytes that are free.

    Raises:
        ConfigError: They cannot be determined.
    """
    free = available_memory()
    if free is None:
        raise ConfigError(
            "kv-cache-memory",
            "must be set: the free memory cannot be determined",
        )
    return free
