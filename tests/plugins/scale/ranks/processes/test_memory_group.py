"""Sums and joined parts of ranks, compared with torch."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
import torch

from hookline.exceptions import RankError
from hookline_kernels.cpu.rank_exchange import SLOT
from hookline_ranks.processes.memory_group import SharedMemoryGroup, group_bytes
from hookline_ranks.processes.shared_memory import SharedMemory
from hookline_testing.essential import essential

T = TypeVar("T")
Call = Callable[[SharedMemoryGroup, torch.Tensor], T]

SHAPES = [(1, 64), (3, 19), (7, 1), (SLOT // 4 + 5, 3)]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
LATE = 0.02
"""Seconds after which a rank that does not come counts as gone."""

CHILD = """
import sys, torch
from hookline_ranks.processes.memory_group import SharedMemoryGroup, group_bytes
from hookline_ranks.processes.shared_memory import SharedMemory

memory = SharedMemory(group_bytes(2), int(sys.argv[1]))
group = SharedMemoryGroup(memory, 1, 2, deadline_seconds=60)
for step in range(200):
    found = group.all_reduce(torch.full((33,), 0.5 * step))
    assert found.tolist() == [1.5 * step] * 33
assert group.gather(torch.ones(2, 3)) is None
"""


def groups_of(size: int, deadline_seconds: float = 60.0) -> list[SharedMemoryGroup]:
    memory = SharedMemory(group_bytes(size))
    memory.close_descriptor()
    return [
        SharedMemoryGroup(memory, rank, size, deadline_seconds=deadline_seconds)
        for rank in range(size)
    ]


def in_all(
    groups: Sequence[SharedMemoryGroup], call: Call[T], given: Sequence[torch.Tensor]
) -> list[T]:
    """What each rank gets, in threads in place of processes."""
    with ThreadPoolExecutor(len(groups)) as pool:
        return list(pool.map(call, groups, [each.clone() for each in given]))


def summed(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The sum in the order of ranks, rounded once."""
    total = parts[0].float()
    for part in parts[1:]:
        total = total + part.float()
    return total.to(parts[0].dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", essential(DTYPES, torch.float32, torch.bfloat16))
@pytest.mark.parametrize("size", essential([2, 3, 5], 2, 3))
def test_all_ranks_get_the_sum(
    size: int, dtype: torch.dtype, shape: tuple[int, int]
) -> None:
    """The same bits, those of a sum in float32 in the order of ranks."""
    generator = torch.Generator().manual_seed(size)
    groups = groups_of(size)

    for _ in range(3):
        parts = [torch.randn(shape, generator=generator).to(dtype) for _ in groups]
        found = in_all(groups, SharedMemoryGroup.all_reduce, parts)

        assert all(torch.equal(each, summed(parts)) for each in found)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", essential(DTYPES, torch.float32))
def test_rank_0_joins_the_columns(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    """The others get nothing."""
    parts = [torch.randn(shape).to(dtype) for _ in range(2)]

    joined, nothing = in_all(groups_of(2), SharedMemoryGroup.gather, parts)

    assert joined is not None
    assert torch.equal(joined, torch.cat(parts, 1))
    assert nothing is None


@pytest.mark.exhaustive
def test_processes_share_a_group() -> None:
    """
    One of them in this process, the other in one that inherits the memory; engines with
    several ranks do so as well.
    """
    memory = SharedMemory(group_bytes(2))
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(memory.descriptor)],
        pass_fds=[memory.descriptor],
    ) as child:
        group = SharedMemoryGroup(memory, 0, 2, deadline_seconds=60)
        for step in range(200):
            group.all_reduce(torch.full((33,), 1.0 * step))
        joined = group.gather(torch.zeros(2, 3))

    memory.close_descriptor()
    assert child.returncode == 0
    assert joined is not None
    assert joined.tolist() == [[0.0] * 3 + [1.0] * 3] * 2


def test_a_rank_that_does_not_come_is_named() -> None:
    """Also where a recorded step cannot raise, and then in every later call."""
    group = groups_of(2, LATE)[0]

    with pytest.raises(RankError, match="rank 1: it does not compute"):
        group.all_reduce(torch.zeros(4))
    with pytest.raises(RankError, match="rank 1"):
        group.end_step()
    with pytest.raises(RankError, match="rank 1"):
        group.gather(torch.zeros(1, 4))


def test_ranks_that_compute_different_things_are_told() -> None:
    """Rather than get sums of unrelated numbers."""
    groups = groups_of(2)
    parts = [torch.zeros(4), torch.zeros(5)]

    with pytest.raises(RankError, match="it computes something else"):
        in_all(groups, SharedMemoryGroup.all_reduce, parts)


def test_the_time_of_exchanges_is_counted() -> None:
    """Each step's once."""
    groups = groups_of(2)

    in_all(groups, SharedMemoryGroup.all_reduce, [torch.zeros(4)] * 2)

    assert all(each.end_step() > 0 for each in groups)
    assert all(each.end_step() == 0 for each in groups)
