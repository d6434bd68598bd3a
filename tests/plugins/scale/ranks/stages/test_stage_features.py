"""Hidden states of all layers reach the last stage of a pipeline."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch

from hookline.clock import SystemClock
from hookline.config import EngineConfig, ExecutorConfig, Kernels, ParallelConfig
from hookline.engine.decoder.forward_batch import ForwardBatch
from hookline.engine.worker.extension import WorkerSide
from hookline.engine.worker.followed_rows import FollowedRows
from hookline.engine.worker.loaded_model import LoadedModel
from hookline.engine.worker.paged_cache import PagedCache
from hookline.startup_timer import StartupTimer
from hookline_kernels import CPU
from hookline_models.loading.loader import load
from hookline_ranks.parallel_groups import ParallelGroups
from hookline_ranks.rank_context import DividedRankContext
from hookline_ranks.stages.stage_links import PassedFeatures
from hookline_ranks.stages.stage_runner import PassingForward
from hookline_testing.essential import essential
from hookline_testing.oracle import FAMILIES, make_oracle

LAYERS = (2, 3, 0)
COUNT, BLOCK = 20, 16


class Reader(WorkerSide):
    states_option = "test"
    feature_layers = LAYERS


def load_stage(folder: Path, kernels: Kernels, parallel: ParallelConfig) -> LoadedModel:
    """A stage that is ready for a prompt; an extension reads the last one's layers."""
    config = EngineConfig.from_options(model=str(folder))
    config = replace(
        config,
        executor=ExecutorConfig(kernels=kernels),
        parallel=parallel,
    )
    is_last = parallel.stage == parallel.pipeline_parallel_size - 1
    loaded = load(
        config,
        CPU,
        StartupTimer(SystemClock()),
        extensions=FollowedRows([Reader()] if is_last else []),
        ranks=DividedRankContext(config, ParallelGroups()),
    )
    may_compile = kernels is not Kernels.TORCH
    cache = PagedCache(loaded.layers, 2, BLOCK, loaded.dtype, may_compile=may_compile)
    loaded.forward.bind(cache)
    if not is_last:
        assert isinstance(loaded.forward, PassingForward)
        loaded.forward.read_features(LAYERS)
    return loaded


def prompt() -> ForwardBatch:
    return ForwardBatch(
        token_ids=torch.arange(7, 7 + COUNT),
        positions=torch.arange(COUNT),
        logits_indices=torch.tensor([COUNT - 1]),
        slot_mapping=torch.arange(COUNT),
        block_tables=torch.arange(2)[None],
        query_lens=[COUNT],
        seq_lens=[COUNT],
        num_decodes=0,
        seq_lens_tensor=torch.tensor([COUNT]),
    )


@pytest.mark.parametrize(
    ("family", "kernels"),
    essential(
        product(sorted(FAMILIES), Kernels),
        ("llama", Kernels.AUTO),
        ("gpt2", Kernels.AUTO),
    ),
)
@torch.inference_mode()
def test_the_last_stage_gets_the_features_of_all(
    family: str, kernels: Kernels, tmp_path: Path
) -> None:
    """Three stages of a layer each give what the whole model gives."""
    folder = make_oracle(family, tmp_path).folder
    whole = load_stage(folder, kernels, ParallelConfig())
    expected = whole.forward.with_hidden(prompt())
    batch = prompt()
    stages = [
        load_stage(folder, kernels, ParallelConfig(pipeline_parallel_size=3, rank=rank))
        for rank in range(3)
    ]

    for stage in stages[:-1]:
        assert isinstance(stage.forward, PassingForward)
        passed = stage.forward.passed_on(batch)
        wanted = PassedFeatures.of(LAYERS, stage.own_layers).after
        assert tuple(sorted(passed.features)) == wanted
        batch = batch.after(passed)
    found = stages[-1].forward.with_hidden(batch)

    assert found.features is not None
    assert expected.features is not None
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_stage_passes_on_what_later_ones_do_not_have() -> None:
    """The input of the next stage's first layer is its hidden states."""
    first, middle, last = (
        PassedFeatures.of((5, 0, 2, 3, 6), own)
        for own in (range(2), range(2, 4), range(4, 6))
    )

    assert (first.before, first.after) == ((), (0,))
    assert (middle.before, middle.after) == ((0,), (0, 2, 3))
    assert last.before == (0, 2, 3)
