"""A model, its adapters, and engines that compute them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from hookline.config import (
    CacheConfig,
    Dtype,
    EngineConfig,
    ModelConfig,
    SchedulerConfig,
)
from hookline_lora.config import LoraConfig
from hookline_testing.adapted_engine import AdaptedEngine
from hookline_testing.adapters import make_adapter, shapes_of, with_adapter
from hookline_testing.oracle import Oracle, make_oracle

MakeEngine = Callable[..., AdaptedEngine]
PeftOf = Callable[[Oracle, Path], Oracle]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """A small Llama."""
    return make_oracle("llama", tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def adapters(base: Oracle, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two adapters of it, of ranks 4 and 8."""
    folder, shapes = tmp_path_factory.mktemp("adapters"), shapes_of(base.model)
    return [
        make_adapter(folder / f"rank{rank}", shapes, rank=rank, seed=rank)
        for rank in (4, 8)
    ]


@pytest.fixture
def make_engine() -> Iterator[MakeEngine]:
    """Makes engines in float32 for up to nine requests, which are closed."""

    def make(
        folder: Path,
        *,
        tokens: int = 256,
        blocks: int = 64,
        lora: LoraConfig | None = None,
        **model: object,
    ) -> AdaptedEngine:
        read = ModelConfig(model=str(folder), dtype=Dtype.FLOAT32, max_model_len=128)
        config = EngineConfig(
            model=replace(read, **model),  # type: ignore[arg-type]
            cache=CacheConfig(num_kv_blocks=blocks),
            scheduler=SchedulerConfig(max_num_seqs=9, max_num_batched_tokens=tokens),
        )
        engine = AdaptedEngine(config, lora)
        closing.callback(engine.close)
        return engine

    with ExitStack() as closing:
        yield make


@pytest.fixture
def peft_of() -> PeftOf:
    """Returns a model as peft computes it with an adapter."""

    def made(oracle: Oracle, adapter: Path) -> Oracle:
        return Oracle(oracle.folder, with_adapter(oracle.model, adapter))

    return made
