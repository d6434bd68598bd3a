"""Steps of ranks are recorded with their sums, and replayed."""

from functools import partial

import pytest

from hookline.config import Kernels
from hookline.engine.decoder import Decoder
from hookline_kernels.decoder.step_replay import RecordedSteps
from hookline_ranks.gathered_forward import GatheredForward
from hookline_ranks.processes.memory_group import SharedMemoryGroup, group_bytes
from hookline_ranks.processes.shared_memory import SharedMemory
from hookline_testing.oracle import Oracle
from hookline_testing.rank_threads import on_ranks

from .conftest import RankedModel, load_rank

PROMPT = [*range(5, 25), 300, 317]


def groups_of(size: int) -> list[SharedMemoryGroup]:
    memory = SharedMemory(group_bytes(size))
    memory.close_descriptor()
    return [
        SharedMemoryGroup(memory, rank, size, deadline_seconds=60)
        for rank in range(size)
    ]


def replay_of(rank: RankedModel) -> RecordedSteps | None:
    forward = rank.loaded.forward
    assert isinstance(forward, GatheredForward)
    decoder = forward._forward
    assert isinstance(decoder, Decoder)
    replay = decoder._replay
    assert replay is None or isinstance(replay, RecordedSteps)
    return replay


@pytest.mark.parametrize("replays", [True, False])
def test_replayed_steps_sum_over_ranks(llama: Oracle, replays: bool) -> None:
    """Single tokens are replayed, with the output of `transformers`; or none is."""
    groups = groups_of(2)
    ranks = [
        load_rank(llama.folder, group, Kernels.AUTO, replays_steps=replays)
        for group in groups
    ]
    for rank in ranks:
        rank.join()

    found = on_ranks([partial(rank.greedy, PROMPT, 20) for rank in ranks])

    assert found == [llama.greedy(PROMPT, 20)] * 2
    for rank in ranks:
        replay = replay_of(rank)
        assert (replay is not None) == replays
        if replay is not None:
            assert [size.tokens for size in replay._recorded] == [1]
            assert not replay.reason
