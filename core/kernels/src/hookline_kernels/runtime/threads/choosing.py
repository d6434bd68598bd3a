"""Sets the number of threads that compute a step on CPUs."""

import os

import torch

_WORTH_SHARING_FLOPS = 32e6
"""FLOPs per token from which threads pay if the front end runs in its own process.
Below, a front end spends more time on a token than the model does, and threads of a
small step wait for one another longer than they compute."""


def take_threads(threads: int | None, processes: int = 1) -> None:
    """Sets the number of threads of torch and of Hookline's kernels.

    Args:
        threads: The user's choice. Without one, the processes divide the cores.
        processes: Number of processes that compute at the same time.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    elif processes > 1 and not is_chosen(threads):
        torch.set_num_threads(max(1, torch.get_num_threads() // processes))


def is_chosen(threads: int | None) -> bool:
    """Whether the user chose the number, by option or by environment variable."""
    return threads is not None or "OMP_NUM_THREADS" in os.environ


def leave_cores(threads: int | None, flops: float) -> None:
    """Limits a small model to one thread, so that the front end gets the other cores.

    Has no effect if the user chose a number.

    Args:
        threads: The user's choice.
        flops: Operations of a token of the model; 0 if they are not known.
    """
    if not is_chosen(threads) and 0 < flops <= _WORTH_SHARING_FLOPS:
        torch.set_num_threads(1)
