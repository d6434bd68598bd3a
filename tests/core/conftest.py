"""One small random model, and an engine of it that tests of one module share."""

from collections.abc import Iterator

import pytest

from hookline import LLM
from hookline.config import CacheConfig, EngineConfig, ModelConfig
from hookline_testing import assert_conserved
from hookline_testing.oracle import Oracle


@pytest.fixture(scope="module")
def module_llm(llama: Oracle) -> Iterator[LLM]:
    """One engine for the tests of a module; they use `llm`."""
    config = EngineConfig(
        model=ModelConfig(model=str(llama.folder)),
        cache=CacheConfig(num_kv_blocks=512),
    )
    with LLM.from_config(config) as llm:
        yield llm


@pytest.fixture
def llm(module_llm: LLM) -> Iterator[LLM]:
    """The module's engine; whatever a test does to it, the books balance."""
    yield module_llm

    assert_conserved(module_llm)
