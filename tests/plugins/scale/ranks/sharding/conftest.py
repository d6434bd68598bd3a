"""A model whose ranks are threads, decoding one prompt."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
import torch

from hookline.clock import SystemClock
from hookline.config import (
    EngineConfig,
    ExecutorConfig,
    Kernels,
    ModelConfig,
    ParallelConfig,
)
from hookline.engine.decoder.forward_batch import ForwardBatch
from hookline.engine.worker.extension import WorkerSide
from hookline.engine.worker.followed_rows import FollowedRows
from hookline.engine.worker.loaded_model import LoadedModel
from hookline.engine.worker.paged_cache import PagedCache
from hookline.engine.worker.rank_context import RankContext
from hookline.startup_timer import StartupTimer
from hookline_kernels import CPU
from hookline_models.loading.loader import load
from hookline_ranks.experts.whole_experts import CountTokens
from hookline_ranks.parallel_groups import ParallelGroups, StepExperts, StepGroup
from hookline_ranks.rank_context import DividedRankContext
from hookline_testing.rank_threads import on_ranks, thread_groups

BLOCK, BLOCKS = 16, 4
BASE = EngineConfig(model=ModelConfig(max_model_len=BLOCK * BLOCKS))


@dataclass(frozen=True)
class RankedModel:
    """One rank, with a KV cache.

    Attributes:
        loaded: Its part of the model.
        ranks: What it has of the others.
        group: Its side of the group; None if no other rank shares its layers.
    """

    loaded: LoadedModel
    ranks: RankContext
    group: StepGroup | None

    def join(self) -> None:
        """Makes it call the others from now on, over an empty cache."""
        self.ranks.end_loading(self.loaded)
        self.ranks.join()
        self.loaded.forward.bind(
            PagedCache(
                self.loaded.layers,
                BLOCKS,
                BLOCK,
                self.loaded.dtype,
                cache_dtype=self.loaded.cache_dtype,
                may_compile=self.loaded.forward.name != "modules",
            )
        )

    def greedy(self, prompt: list[int], count: int) -> list[int]:
        """Returns the tokens that follow a prompt; all ranks must be called."""
        logits, tokens = self.logits(prompt, 0), list[int]()
        while len(tokens) < count:
            tokens.append(self._agree(logits))
            logits = self.logits(tokens[-1:], len(prompt) + len(tokens) - 1)
        return tokens

    @torch.inference_mode()
    def logits(self, tokens: list[int], start: int) -> torch.Tensor:
        """[1, vocabulary] behind some tokens, on rank 0."""
        return self.loaded.forward(batch_of(tokens, start))

    def _agree(self, logits: torch.Tensor) -> int:
        """Rank 0's choice, on all ranks."""
        if self.group is None:
            return int(logits.argmax())
        own = int(logits.argmax()) if self.group.rank == 0 else 0
        return int(self.group.all_reduce(torch.tensor([own])))


def batch_of(tokens: list[int], start: int) -> ForwardBatch:
    """A step of one request, whose blocks are out of order."""
    at, table = torch.arange(start, start + len(tokens)), torch.tensor([3, 1, 2, 0])
    return ForwardBatch(
        token_ids=torch.tensor(tokens),
        positions=at,
        logits_indices=torch.tensor([len(tokens) - 1]),
        slot_mapping=table[at // BLOCK] * BLOCK + at % BLOCK,
        block_tables=table[None],
        query_lens=[len(tokens)],
        seq_lens=[start + len(tokens)],
        num_decodes=int(len(tokens) == 1),
        seq_lens_tensor=torch.tensor([start + len(tokens)]),
    )


class Reader(WorkerSide):
    uses_cache = True

    def __init__(self, *, looks_inside: bool) -> None:
        self.looks_inside = looks_inside


def load_rank(
    folder: Path,
    group: StepGroup | None,
    kernels: Kernels = Kernels.TORCH,
    *,
    replays_steps: bool = True,
    count_expert_tokens: CountTokens | None = None,
    experts: StepExperts | None = None,
    **model: object,
) -> RankedModel:
    """Loads one rank, which does not call the others yet.

    Experts are whole if what they compute is counted, or engines share them.
    """
    groups = ParallelGroups(tensor=group, experts=experts)
    parallel = ParallelConfig()
    if count_expert_tokens is not None and group is not None:
        groups = replace(groups, count_expert_tokens=count_expert_tokens)
        parallel = ParallelConfig(
            tensor_parallel_size=group.size, enable_expert_parallel=True
        )
    config = replace(
        BASE,
        model=replace(BASE.model, model=str(folder), **model),  # type: ignore[arg-type]
        executor=ExecutorConfig(kernels=kernels),
        parallel=parallel,
    )
    ranks = DividedRankContext(config, groups)
    loaded = load(
        config,
        CPU,
        StartupTimer(SystemClock()),
        extensions=FollowedRows([Reader(looks_inside=not replays_steps)]),
        ranks=ranks,
    )
    return RankedModel(loaded, ranks, group)


GreedyOnRanks = Callable[..., list[list[int]]]


@pytest.fixture
def greedy_on_ranks() -> GreedyOnRanks:
    """Loads all ranks and decodes; returns each rank's tokens."""

    def run(
        folder: Path,
        size: int,
        prompt: list[int],
        count: int,
        *,
        make_groups: Callable[[int], Sequence[StepGroup]] = thread_groups,
        **options: object,
    ) -> list[list[int]]:
        groups = make_groups(size)
        ranks = [load_rank(folder, group, **options) for group in groups]  # type: ignore[arg-type]
        for rank in ranks:
            rank.join()
        return on_ranks([partial(rank.greedy, prompt, count) for rank in ranks])

    return run
