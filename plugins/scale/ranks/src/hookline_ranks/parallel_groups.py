"""The groups of ranks to which one rank belongs, as it calls them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from hookline.engine.worker.sampling.sampler import StepSampler
from hookline.stats.step_work import RankUse
from hookline_ranks.experts.expert_group import ExpertGroup
from hookline_ranks.experts.whole_experts import CountTokens
from hookline_ranks.sharding.tensor_group import TensorGroup
from hookline_ranks.stages.stage_links import StageLinks


class StepGroup(TensorGroup, Protocol):
    """A tensor group whose exchanges are looked at after each step."""

    def end_step(self) -> int:
        """Returns how long exchanges took since the last call, waiting included, ns.

        Raises:
            RankError: A rank did not take part in all of them.
        """
        ...


class StepExperts(ExpertGroup, Protocol):
    """An expert group of a rank that loads a model, serves, and may sleep."""

    def open(self, width: int, dtype: torch.dtype) -> None:
        """Gets ready to exchange hidden states of this size."""
        ...

    def join(self) -> None:
        """Makes further calls with the others, which do the same in their steps."""
        ...

    def leave(self) -> None:
        """Forgets the layers, and calls nobody until it joins again."""
        ...

    def assist(self) -> None:
        """Takes part in a step of other engines, without tokens of its own.

        Raises:
            RankError: Another rank did not come.
        """
        ...

    def end_step(self) -> RankUse:
        """Returns what experts have computed, and how long this rank has waited."""
        ...


def _own(sampler: StepSampler) -> StepSampler:
    return sampler


def _ignore(_tokens: int) -> None:
    """Nobody asks how many tokens experts have computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelGroups:
    """The groups of ranks to which one rank belongs; by default it is alone.

    Attributes:
        tensor: The ranks that share this rank's layers; None if there is no other.
        share_samples: Makes the sampler of this rank's steps of the sampler that reads
            logits, so that all ranks get the same tokens.
        stages: Links to the pipeline stages before and after; None without stages.
        count_expert_tokens: Is told what this rank's whole experts compute, if they are
            spread over the ranks of one engine.
        experts: The ranks of several engines over which experts are spread; None if the
            engine has all experts.
    """

    tensor: StepGroup | None = None
    share_samples: Callable[[StepSampler], StepSampler] = _own
    stages: StageLinks | None = None
    count_expert_tokens: CountTokens = _ignore
    experts: StepExperts | None = None
