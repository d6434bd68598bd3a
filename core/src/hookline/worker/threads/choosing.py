"""Sets the number of threads that compute a step on CPUs."""

import os

import torch

from hookline.config import ExecutorConfig
from hookline.cost import ModelCost

_WORTH_SHARING_FLOPS = 32e6
"""FLOPs per token from which threads pay if the front end runs in its own process.
Below, a front end spends more time on a token than the model does, and threads of a
small step wait for one another longer than they compute."""


def take_threads(config: ExecutorConfig, engines: int = 1) -> None:
    """Sets the number of threads of torch and of Hookline's kernels.

    It is the configured one. Without one, `engines` that compute at the same time
    divide the cores.
    """
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    elif engines > 1 and not is_chosen(config):
        torch.set_num_threads(max(1, torch.get_num_threads() // engines))


def is_chosen(config: ExecutorConfig) -> bool:
    """Whether the user chose the number, by option or by environment variable."""
    return config.threads is not None or "OMP_NUM_THREADS" in os.environ


def leave_cores(config: ExecutorConfig, cost: ModelCost) -> None:
    """Limits a small model to one thread, so that the front end gets the other cores.

    Has no effect if the user chose a number.
    """
    flops = cost.flops_per_token + cost.flops_per_sample
    if (
        config.shares_cores
        and not is_chosen(config)
        and 0 < flops <= _WORTH_SHARING_FLOPS
    ):
        torch.set_num_threads(1)
