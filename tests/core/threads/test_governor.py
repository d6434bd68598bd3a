"""The number of threads of each step, on machines as the governor finds them."""

from dataclasses import dataclass

import torch

from hookline.worker.threads.governor import ThreadGovernor


@dataclass
class Team:
    """A team that counts nothing."""

    waited_ns: int = 0
    native_ids: tuple[int, ...] = ()


def test_a_chosen_number_stays() -> None:
    """It is measured, but never changed."""
    team, threads = Team(waited_ns=100), torch.get_num_threads()
    governor = ThreadGovernor(team, is_fixed=True)

    governor.begin_step()
    team.waited_ns = 600
    use = governor.end_step()

    assert torch.get_num_threads() == threads
    assert (use.threads, use.barrier_wait_ns) == (threads, 500)
