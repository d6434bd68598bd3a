"""How many threads compute a step on processors."""

import os

import torch

from hookline.config import ExecutorConfig
from hookline.cost import ModelCost

_WORTH_SHARING_FLOPS = 32e6
"""A token, beside a front end in another process. Of less, to read its request, to
write it and to receive it takes longer than to compute it, and the processors are used
best if each process has its own: threads of a small step wait for one another longer
than they compute."""


def take_threads(config: ExecutorConfig) -> None:
    """Has torch, and our kernels with it, use as many threads as the user says."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)


def leave_cores(config: ExecutorConfig, cost: ModelCost) -> None:
    """Has a small model computed by one thread, if a front end wants the others.

    Not if the user says how many, by an option or by the environment.
    """
    is_said = config.threads is not None or "OMP_NUM_THREADS" in os.environ
    flops = cost.flops_per_token + cost.flops_per_sample
    if config.shares_cores and not is_said and 0 < flops <= _WORTH_SHARING_FLOPS:
        torch.set_num_threads(1)
