"""Engines whose ranks have processes of their own."""

from collections.abc import Iterator

import pytest

from hookline import LLM
from hookline_testing.oracle import Oracle


@pytest.fixture(scope="module")
def ranks_llm(llama: Oracle) -> Iterator[LLM]:
    """One engine in this process, whose single rank has a process of its own."""
    with LLM(str(llama.folder), executor="mp", num_kv_blocks=512) as llm:
        yield llm
