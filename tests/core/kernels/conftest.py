"""Fixtures of the kernels' tests."""

from collections.abc import Iterator

import pytest
import torch

from hookline_kernels.cpu.amx import has_tiles

OF_TILES = ("bf16x3_gemm", "feed_forward", "gemm", "row_blocks", "skinny_gemm")
collect_ignore = [] if has_tiles() else [f"test_{each}.py" for each in OF_TILES]
"""Tests of kernels that lower tiers of instructions do not have."""


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """Numbers of threads, also more than there are cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)
