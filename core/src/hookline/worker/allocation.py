"""Result of the phase `allocate`: the memory that a worker serves with."""

from dataclasses import dataclass
from typing import Self

from hookline.worker.feed import Feed
from hookline.worker.paged_cache import PagedCache
from hookline.worker.runner_maker import BatchState, RunnerMaker
from hookline_kernels.runtime.cache_memory import CacheMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A worker's KV cache, its input buffers and the rows of its batch.

    It outlives sleep, which takes only the contents of the KV cache.

    Attributes:
        cache: Keys and values of the model.
        memory: Its memory, with that of extensions' own layers.
        feed: Brings inputs to the model.
        state: The requests in the batch.
        cache_key: Models with another key cannot use this cache.
    """

    cache: PagedCache
    memory: CacheMemory
    feed: Feed
    state: BatchState
    cache_key: tuple[object, ...]

    @classmethod
    def of(cls, maker: RunnerMaker, num_blocks: int) -> Self:
        """Allocates a KV cache of that many blocks, and all that goes with it.

        Raises:
            ConfigError: An extension cannot use the cache, or a plugin's logits
                processor cannot be created.
        """
        cache = maker.cache(num_blocks)
        maker.show(cache)
        tensors = [side for sides in cache.sides() for side in sides]
        tensors += maker.extensions.allocate(maker.cache_shape(num_blocks))
        return cls(
            cache=cache,
            memory=CacheMemory(tensors),
            feed=maker.feed(cache),
            state=maker.batch_state(serves=True),
            cache_key=maker.model.cache_key,
        )

    @property
    def num_blocks(self) -> int:
        """Number of blocks in the KV cache."""
        return len(self.cache.keys[0])

    def close(self) -> None:
        """Ends the threads of plugins that work on this memory."""
        self.state.sampling.close()
