"""Fixtures of the kernels' tests."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """Numbers of threads, also more than there are cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)
