"""Threads of a step: one for small models behind a front end, else torch's choice."""

from collections.abc import Iterator

import pytest
import torch

from hookline.config import ExecutorConfig
from hookline.cost import ModelCost
from hookline.worker.threads.choosing import leave_cores, take_threads

SMALL = ModelCost(flops_per_token=4e6, flops_per_sample=8e6)
LARGE = ModelCost(flops_per_token=1e8, flops_per_sample=5e7)
BESIDE = ExecutorConfig(shares_cores=True)


@pytest.fixture(autouse=True)
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What torch chose; put back as it was."""
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("config", "cost", "threads"),
    [
        (BESIDE, SMALL, 1),
        (BESIDE, LARGE, 3),
        (BESIDE, ModelCost(), 3),
        (ExecutorConfig(), SMALL, 3),
        (ExecutorConfig(threads=2, shares_cores=True), SMALL, 2),
    ],
    ids=["small", "large", "unknown cost", "alone", "by option"],
)
def test_threads_follow_the_work_and_the_user(
    config: ExecutorConfig, cost: ModelCost, threads: int
) -> None:
    """A small model leaves the other cores to the front end."""
    take_threads(config)
    leave_cores(config, cost)

    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("config", "engines", "threads"),
    [
        (BESIDE, 2, 1),
        (BESIDE, 8, 1),
        (BESIDE, 1, 3),
        (ExecutorConfig(threads=2), 8, 2),
    ],
    ids=["divided", "more than cores", "alone", "by option"],
)
def test_engines_divide_the_cores(
    config: ExecutorConfig, engines: int, threads: int
) -> None:
    """Each has at least one thread; a number that the user chose is each engine's."""
    take_threads(config, engines)

    assert torch.get_num_threads() == threads


def test_the_environment_counts_as_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenMP's number of threads is kept if it is set."""
    monkeypatch.setenv("OMP_NUM_THREADS", "3")

    take_threads(BESIDE, 3)
    leave_cores(BESIDE, SMALL)

    assert torch.get_num_threads() == 3
