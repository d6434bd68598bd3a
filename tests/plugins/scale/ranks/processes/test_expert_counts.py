"""Ranks count what their experts compute in memory that the executor reads."""

from hookline.config import ParallelConfig
from hookline_ranks.processes.expert_counts import ExpertCounts, counts_bytes
from hookline_ranks.processes.links import ExecutorLinks
from hookline_ranks.processes.shared_memory import SharedMemory


def test_each_number_is_taken_once() -> None:
    """Others map the same memory; what they add comes with the next look."""
    memory = SharedMemory(counts_bytes(3))
    rank, executor = ExpertCounts(memory), ExpertCounts(memory)

    rank.add(2, 5)
    rank.add(0, 1)
    first, second = executor.take(), executor.take()
    rank.add(2, 7)

    assert (first, second, executor.take()) == ((1, 0, 5), (0, 0, 0), (0, 0, 7))


def test_there_is_memory_only_for_whole_experts() -> None:
    """All ranks get it, those of all stages; without the option none does."""
    whole = ParallelConfig(
        tensor_parallel_size=2, pipeline_parallel_size=2, enable_expert_parallel=True
    )

    with_counts, without = ExecutorLinks(whole), ExecutorLinks(ParallelConfig())

    assert with_counts.expert_counts is not None
    assert with_counts.expert_counts.take() == (0, 0, 0, 0)
    for rank in with_counts.ranks:
        assert rank.expert_counts in rank.descriptors
    assert without.expert_counts is None
    for links in (with_counts, without):
        links.close()
