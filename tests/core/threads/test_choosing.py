"""Threads of a step: one for small models behind a front end, else torch's choice."""

from collections.abc import Iterator

import pytest
import torch

from hookline_kernels.runtime.threads.choosing import leave_cores, take_threads

SMALL, LARGE = 12e6, 15e7
"""Operations of a token."""


@pytest.fixture(autouse=True)
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What torch chose; put back as it was."""
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("chosen", "flops", "threads"),
    [(None, SMALL, 1), (None, LARGE, 3), (None, 0.0, 3), (2, SMALL, 2)],
    ids=["small", "large", "unknown cost", "by option"],
)
def test_threads_follow_the_work_and_the_user(
    chosen: int | None, flops: float, threads: int
) -> None:
    """A small model leaves the other cores to the front end."""
    take_threads(chosen)
    leave_cores(chosen, flops)

    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("chosen", "engines", "threads"),
    [(None, 2, 1), (None, 8, 1), (None, 1, 3), (2, 8, 2)],
    ids=["divided", "more than cores", "alone", "by option"],
)
def test_engines_divide_the_cores(
    chosen: int | None, engines: int, threads: int
) -> None:
    """Each has at least one thread; a number that the user chose is each engine's."""
    take_threads(chosen, engines)

    assert torch.get_num_threads() == threads


def test_the_environment_counts_as_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenMP's number of threads is kept if it is set."""
    monkeypatch.setenv("OMP_NUM_THREADS", "3")

    take_threads(None, 3)
    leave_cores(None, SMALL)

    assert torch.get_num_threads() == 3
