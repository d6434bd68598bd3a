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


def choose_threads(config: ExecutorConfig, cost: ModelCost) -> None:
    """Sets how many threads torch, and our kernels with it, use from now on.

    What the user says counts, by an option or by the environment.
    """
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    elif config.shares_cores and "OMP_NUM_THREADS" not in os.environ:
        flops = cost.flops_per_token + cost.flops_per_sample
        if 0 < flops <= _WORTH_SHARING_FLOPS:
            torch.set_num_threads(1)
