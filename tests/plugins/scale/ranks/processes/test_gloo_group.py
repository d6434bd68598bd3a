"""Sums and joined parts of ranks that are connected by gloo, compared with torch."""

import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import pytest
import torch

from hookline.exceptions import RankError
from hookline_ranks.processes import gloo
from hookline_ranks.processes.gloo import host_store
from hookline_ranks.processes.gloo_group import GlooGroup
from hookline_testing.gloo_threads import LOOPBACK, gloo_groups, process_groups

T = TypeVar("T")
SHAPES = [(1, 64), (3, 19), (7, 1), (400, 300)]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody here ends a rank that waits for another one."""
    monkeypatch.setattr(gloo, "_NOTICE_SECONDS", 0.0)


def in_all(
    groups: Sequence[GlooGroup],
    call: Callable[[GlooGroup, torch.Tensor], T],
    given: Sequence[torch.Tensor],
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


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [2, 3])
def test_all_ranks_get_the_sum(size: int, dtype: torch.dtype) -> None:
    """The same bits, those of ranks that share memory."""
    generator = torch.Generator().manual_seed(size)
    groups = gloo_groups(size)

    for shape in SHAPES:
        parts = [torch.randn(shape, generator=generator).to(dtype) for _ in groups]
        found = in_all(groups, GlooGroup.all_reduce, parts)

        assert all(torch.equal(each, summed(parts)) for each in found)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rank_0_joins_the_columns(dtype: torch.dtype) -> None:
    """The others get nothing."""
    groups = gloo_groups(2)
    for shape in SHAPES:
        parts = [torch.randn(shape).to(dtype) for _ in groups]

        joined, nothing = in_all(groups, GlooGroup.gather, parts)

        assert joined is not None
        assert torch.equal(joined, torch.cat(parts, 1))
        assert nothing is None


def test_followers_get_the_sampled_tokens() -> None:
    """All of a step, in their order."""
    first, *others = gloo_groups(3)
    tokens = np.arange(5, dtype=np.int64) * 100_000

    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(each.receive_tokens, 5) for each in others]
        first.send_tokens(tokens)

    assert [each.result().tolist() for each in waiting] == [tokens.tolist()] * 2


def test_a_rank_that_has_ended_is_an_error_of_the_others() -> None:
    """Rather than an endless wait, or an error that names no rank."""
    first, second = gloo_groups(2)
    del second

    with pytest.raises(RankError, match="rank 0: its exchange with others failed"):
        first.all_reduce(torch.zeros(4))


def test_a_rank_that_does_not_come_is_an_error() -> None:
    """Once the deadline has passed."""
    first, second = gloo_groups(2, deadline_seconds=0.5)

    with pytest.raises(RankError, match="rank 0: its exchange with others failed"):
        first.all_reduce(torch.zeros(4))

    assert second.size == 2  # it lived until here


def test_the_time_of_exchanges_is_counted() -> None:
    """Each step's once."""
    groups = gloo_groups(2)

    in_all(groups, GlooGroup.all_reduce, [torch.zeros(4)] * 2)

    assert all(each.end_step() > 0 for each in groups)
    assert all(each.end_step() == 0 for each in groups)


def test_the_store_listens_at_its_own_address_until_ranks_have_met() -> None:
    """Not on all interfaces of the machine, and not any longer."""
    hosted = host_store(LOOPBACK)
    port = hosted.port
    with socket.create_connection((LOOPBACK, port)):
        pass
    with (
        pytest.raises(ConnectionRefusedError),
        socket.create_connection(("127.0.0.2", port)),
    ):
        pass
    del hosted

    groups = process_groups(2)

    with (
        pytest.raises(ConnectionRefusedError),
        socket.create_connection((LOOPBACK, port)),
    ):
        pass
    assert [each.rank() for each in groups] == [0, 1]
