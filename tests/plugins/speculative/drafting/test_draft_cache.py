"""Keys and values of drafts lie in requests' blocks, and behind them in spare ones."""

import numpy as np
import pytest
import torch

from hookline.config import CacheConfig, EngineConfig, ModelConfig, SchedulerConfig
from hookline.engine.worker.extension import CacheShape
from hookline_drafting import DraftLayer, ProposerCapabilities, SpeculativeConfig
from hookline_drafting.draft_cache import Span
from hookline_drafting.paged_draft_cache import DraftMemory, PagedDraftCache
from hookline_kernels import CPU
from hookline_models.machines.memory import bytes_of_blocks, count_blocks
from hookline_testing.proposers import RandomProposer


class Layered(RandomProposer):
    capabilities = ProposerCapabilities(
        needs_hidden_states=True,
        kv_layers=(DraftLayer(num_heads=4, num_kv_heads=2, head_dim=16),),
    )


def memory(drafts: int = 4, block_size: int = 4) -> DraftMemory:
    config = EngineConfig(
        model=ModelConfig(model="none"),
        cache=CacheConfig(block_size=block_size, kv_cache_memory=100_000),
        scheduler=SchedulerConfig(max_num_seqs=3),
    )
    speculative = SpeculativeConfig(method="x", num_speculative_tokens=drafts)
    found = DraftMemory.of(Layered(), speculative, config)
    assert found is not None
    return found


def blocks(*block_ids: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(block_ids, np.int32)


def cache(drafts: int = 4) -> PagedDraftCache:
    shape = CacheShape(
        num_blocks=10,
        max_model_len=64,
        dtype=torch.float32,
        cache_dtype=torch.float32,
        platform=CPU,
    )
    return memory(drafts).cache(shape)


@pytest.mark.parametrize(
    ("drafts", "spare"), [(1, 0), (2, 1), (5, 1), (6, 2), (9, 2), (10, 3)]
)
def test_as_many_spare_blocks_as_drafts_may_reach(drafts: int, spare: int) -> None:
    """The first draft lies in the request's own blocks, at worst at their end."""
    found = memory(drafts)

    assert found.num_spare == spare
    assert found.spare_bytes(torch.float32) == 3 * spare * 4 * (2 * (16 + 16)) * 4


def test_no_layers_take_no_memory() -> None:
    """Of proposers that have none."""
    speculative = SpeculativeConfig(method="x", num_speculative_tokens=4)

    assert DraftMemory.of(RandomProposer(), speculative, memory().config) is None


def test_blocks_count_the_draft_s_layers() -> None:
    """What a draft's layer takes is missing from the number of blocks."""
    found = memory()
    own = bytes_of_blocks(1, found.config.cache, found.layers, torch.float32)

    with_two, with_one = (
        count_blocks(
            found.config.cache,
            found.config.scheduler,
            found.layers * count,
            dtype=torch.float32,
            max_model_len=64,
            room=lambda: 0,
        )
        for count in (2, 1)
    )

    assert with_one == 100_000 // own
    assert with_two == 100_000 // (2 * own)


def test_spare_blocks_are_not_shared() -> None:
    """Behind the pool, others for each sequence, and within the memory."""
    own = cache(6)

    tables = [own.with_spare(blocks(index, 9), index).tolist() for index in range(3)]

    assert [table[:2] for table in tables] == [[0, 9], [1, 9], [2, 9]]
    spare = [block for table in tables for block in table[2:]]
    assert sorted(spare) == [10, 11, 12, 13, 14, 15]
    assert len(own._cache.keys[0]) == 16


def test_a_pass_writes_where_its_blocks_are() -> None:
    """Positions of a span go to its blocks in order, and nowhere else."""
    own = cache()
    spans = [Span(5, 1, blocks(7, 2)), Span(2, 4, blocks(3, 8))]

    positions = own.begin(spans)
    sides = torch.arange(1.0, 6.0)[:, None, None]
    key, value = sides.expand(5, 2, 16).clone(), -sides.expand(5, 2, 16)
    own.attend(0, torch.zeros(5, 4, 16), key, value)

    assert positions.tolist() == [5, 2, 3, 4, 5]
    written = own._cache.keys[0][:, :, 0, 0]
    expected = torch.zeros(own._cache.keys[0].shape[:2])
    expected[2, 1] = 1
    expected[3, 2], expected[3, 3], expected[8, 0], expected[8, 1] = 2, 3, 4, 5
    assert torch.equal(written, expected)
    assert torch.equal(own._cache.values[0][:, :, 1, 3], -expected)


def test_a_span_without_its_blocks_is_refused() -> None:
    """Rather than written into the block of another request."""
    with pytest.raises(ValueError, match="fewer than 2 blocks"):
        cache().begin([Span(2, 4, blocks(3))])
